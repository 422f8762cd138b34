//! Updates that a member tells, each so many times, those first that it has told least often.

use super::message::Update;

/// What is told.
#[derive(Debug, Default)]
pub struct News {
    waiting: Vec<(u32, Update)>,
}

impl News {
    /// Tells an update from now on; it replaces what was told about that member.
    pub fn add(&mut self, update: Update) {
        self.waiting
            .retain(|(_, told)| told.subject != update.subject);
        self.waiting.push((0, update));
    }

    /// Whether nothing is to be told.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.waiting.is_empty()
    }

    /// What the next message tells, at most so many updates; each is told `limit` times in all.
    pub fn next(&mut self, most: usize, limit: u32) -> Vec<Update> {
        if self.waiting.len() > most {
            // A stable sort: of two that were told as often, the older one goes first.
            self.waiting.sort_by_key(|(times, _)| *times);
        }
        let told = self.waiting.iter_mut().take(most);
        let updates = told.map(|(times, update)| {
            *times += 1;
            *update
        });
        let updates = updates.collect();
        self.waiting.retain(|(times, _)| *times < limit);
        updates
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::compare::contender::{Member, View};

    #[test]
    fn each_is_told_as_often_as_it_should_and_the_least_told_first() {
        let update = |subject, incarnation| Update {
            subject: Member(subject),
            view: View::Alive,
            incarnation,
            accuser: Member(0),
        };
        let mut news = News::default();
        for subject in [1, 2, 3] {
            news.add(update(subject, 0));
        }
        news.add(update(1, 1));
        let told = |news: &mut News| -> Vec<_> {
            let next = news.next(2, 2).into_iter();
            next.map(|update| (update.subject.0, update.incarnation))
                .collect()
        };
        assert_eq!(told(&mut news), [(2, 0), (3, 0)]);
        assert_eq!(told(&mut news), [(1, 1), (2, 0)]);
        assert_eq!(told(&mut news), [(1, 1), (3, 0)]);
        assert!(news.is_empty());
    }
}
