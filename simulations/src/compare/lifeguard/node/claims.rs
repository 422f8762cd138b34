//! What members claim of each other, and what comes of it: suspicions, verdicts, refutations.

use rumord::time::Instant;

use super::{Entry, Node, Out, Timer};
use crate::compare::contender::{Member, View};
use crate::compare::lifeguard::message::Update;

impl Node {
    /// Somebody claims something: SWIM, section 4.2.
    pub(super) fn hear(&mut self, now: Instant, update: Update, out: &mut Out) {
        if update.subject == self.me {
            return self.hear_of_itself(&update);
        }
        let Some(entry) = self.table.get(update.subject.0).and_then(Option::as_ref) else {
            if update.view == View::Alive {
                self.know(update.subject, update.incarnation, now);
                self.news.add(update);
                out.changes.push((update.subject, View::Alive, None));
            }
            return;
        };
        let (view, older) = (entry.view, update.incarnation < entry.incarnation);
        match (view, update.view) {
            (_, View::Alive) if update.incarnation > entry.incarnation => {
                self.set(now, update, None, out);
            }
            (_, View::Alive) => {}
            (View::Dead, _) => {}
            _ if older => {}
            (View::Suspect, View::Suspect) => self.confirm(now, update, out),
            (View::Alive, View::Suspect) => self.suspect(now, update, out),
            (_, View::Dead) => self.set(now, update, None, out),
        }
    }

    fn hear_of_itself(&mut self, update: &Update) {
        let accused = update.view != View::Alive && update.incarnation >= self.incarnation;
        let outlived = update.view == View::Alive && update.incarnation > self.incarnation;
        if !accused && !outlived {
            return;
        }
        self.incarnation = update.incarnation;
        self.tell_of_itself();
        if accused {
            self.adjust_health(1);
        }
    }

    /// Raises its incarnation, and tells it.
    pub fn tell_of_itself(&mut self) {
        self.incarnation += 1;
        self.news.add(self.own());
    }

    fn own(&self) -> Update {
        Update {
            subject: self.me,
            view: View::Alive,
            incarnation: self.incarnation,
            accuser: self.me,
        }
    }

    fn set(&mut self, now: Instant, update: Update, why: Option<String>, out: &mut Out) {
        let Some(entry) = self
            .table
            .get_mut(update.subject.0)
            .and_then(Option::as_mut)
        else {
            return;
        };
        if entry.view != update.view {
            out.changes.push((update.subject, update.view, why));
        }
        entry.view = update.view;
        entry.incarnation = update.incarnation;
        entry.since = now;
        entry.accusers.clear();
        self.news.add(update);
    }

    fn suspect(&mut self, now: Instant, update: Update, out: &mut Out) {
        let own = update.accuser == self.me;
        self.set(now, update, own.then(|| "no answer".to_owned()), out);
        let ends = now + self.settings.suspicion_length(self.members(), 0);
        if let Some(entry) = self
            .table
            .get_mut(update.subject.0)
            .and_then(Option::as_mut)
        {
            entry.accusers.push(update.accuser);
            entry.ends = ends;
        }
        out.timers.push((ends, Timer::Suspicion(update.subject)));
    }

    /// Another suspects it too: the suspicion is over earlier.
    fn confirm(&mut self, now: Instant, update: Update, out: &mut Out) {
        let members = self.members();
        let counting = self.settings.confirmations(members);
        let Some(entry) = self
            .table
            .get_mut(update.subject.0)
            .and_then(Option::as_mut)
        else {
            return;
        };
        let known = entry.accusers.contains(&update.accuser);
        if known || entry.accusers.len() > counting {
            return;
        }
        entry.accusers.push(update.accuser);
        entry.incarnation = update.incarnation;
        let length = self
            .settings
            .suspicion_length(members, entry.accusers.len() - 1);
        entry.ends = entry.since + length;
        let timer = Timer::Suspicion(update.subject);
        out.timers.push((entry.ends.max(now), timer));
        self.news.add(update);
    }

    /// A suspicion may be old enough.
    pub(super) fn judge(&mut self, now: Instant, subject: Member, out: &mut Out) {
        let Some(entry) = self.table.get(subject.0).and_then(Option::as_ref) else {
            return;
        };
        if entry.view != View::Suspect || now < entry.ends {
            return;
        }
        let (length, confirmed) = (now.since(entry.since), entry.accusers.len() - 1);
        let why = format!(
            "suspected for {:.1} s, {confirmed} confirmations",
            length.as_secs_f64()
        );
        let update = Update {
            subject,
            view: View::Dead,
            incarnation: entry.incarnation,
            accuser: self.me,
        };
        self.set(now, update, Some(why), out);
    }

    /// Its whole table.
    #[must_use]
    pub fn all(&self) -> Vec<Update> {
        let update = |(place, entry): (usize, &Option<Entry>)| {
            let entry = entry.as_ref()?;
            Some(Update {
                subject: Member(place),
                view: entry.view,
                incarnation: entry.incarnation,
                accuser: self.me,
            })
        };
        let others = self.table.iter().enumerate().filter_map(update);
        std::iter::once(self.own()).chain(others).collect()
    }

    /// Takes over another's table. Whom that holds for dead is suspected only, as in memberlist.
    pub fn merge(&mut self, now: Instant, table: &[Update], out: &mut Out) {
        for update in table {
            let mut update = *update;
            if update.view != View::Alive {
                update.view = View::Suspect;
                update.accuser = self.me;
            }
            self.hear(now, update, out);
        }
    }
}
