//! Events of one life that are sent at most once: in order, and never waited for for long.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use super::Taken;
use crate::member::UserEvent;
use crate::time::Instant;

/// Events of one life that are sent at most once and held for those before them.
pub(super) const HELD_MAX: usize = 64;
/// How far the number of an event that is sent at most once may be ahead of the last one, before
/// another one like it is waited for.
pub(super) const JUMP_MAX: u64 = 1 << 16;

/// The events of one life that are sent at most once.
#[derive(Debug, Default)]
pub(super) struct Fleeting {
    /// The next number, and which of the 64 before it have come: the lowest bit is the last one.
    pub(super) next: u64,
    come: u64,
    pub(super) held: BTreeMap<u64, Arc<UserEvent>>,
    /// When the events held come out, whatever is missing.
    pub(super) due: Option<Instant>,
    /// A number that was too far ahead to be believed.
    jumped: Option<u64>,
}

impl Fleeting {
    pub(super) fn after(number: u64) -> Self {
        Fleeting {
            next: number + 1,
            come: u64::MAX,
            ..Fleeting::default()
        }
    }

    pub(super) fn take(&mut self, event: &Arc<UserEvent>, now: Instant, hold: Duration) -> Taken {
        let number = event.sequence;
        let fresh = self.next == 0;
        if fresh {
            self.next = 1;
        }
        if number < self.next {
            return self.note_late(number);
        }
        if self.held.contains_key(&number) {
            return Taken::Duplicate;
        }
        if !fresh && number - self.next > JUMP_MAX {
            // A lie about one number must not silence the origin, nor a long absence of this node.
            let near = self.jumped.is_some_and(|before| {
                before != number && before.abs_diff(number) < HELD_MAX as u64
            });
            self.jumped = Some(number);
            if !near {
                return Taken::Beyond;
            }
        }
        self.held.insert(number, Arc::clone(event));
        let mut out = self.release_next();
        while self.held.len() > HELD_MAX {
            self.pass_over();
            out.extend(self.release_next());
        }
        self.due = match self.due {
            _ if self.held.is_empty() => None,
            None => Some(now + hold),
            due => due,
        };
        Taken::New(out)
    }

    fn note_late(&mut self, number: u64) -> Taken {
        let behind = self.next - 1 - number;
        if behind >= 64 {
            return Taken::Duplicate;
        }
        let bit = 1 << behind;
        let known = self.come & bit != 0;
        self.come |= bit;
        if known { Taken::Duplicate } else { Taken::Late }
    }

    /// What is held and next in order comes out.
    fn release_next(&mut self) -> Vec<Arc<UserEvent>> {
        let mut out = Vec::new();
        while let Some(event) = self.held.remove(&self.next) {
            self.next += 1;
            self.come = self.come << 1 | 1;
            out.push(event);
        }
        out
    }

    /// The first that is held is next: what is missing before it is waited for no longer.
    fn pass_over(&mut self) {
        if let Some(&first) = self.held.keys().next() {
            let missing = first - self.next;
            self.come = if missing < 64 {
                self.come << missing
            } else {
                0
            };
            self.next = first;
        }
    }

    pub(super) fn release_all(&mut self) -> Vec<Arc<UserEvent>> {
        let mut out = Vec::new();
        while !self.held.is_empty() {
            self.pass_over();
            out.extend(self.release_next());
        }
        self.due = None;
        out
    }
}
