//! One exchange that this node has begun: what is open, and how it is tried again.

use std::time::Duration;

use super::outbox::ExchangeId;
use crate::member::NameHash;
use crate::wire::{Ask, Cookie, Place, Salt};

/// The first try and the second go by datagram, two more over a stream.
const DATAGRAM_TRIES: u8 = 2;
const TRIES_MAX: u8 = 4;
/// Questions of one exchange, all tries together: an answer may ask for another one, and a hostile
/// peer must not keep that up.
const QUESTIONS_MAX: u8 = 32;
/// Answers to one question by datagram.
pub const PARTS_MAX: usize = 8;

/// What carries the questions of a try.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Path {
    /// Datagrams.
    Datagrams,
    /// Streams, one for each question.
    Streams,
}

/// A question that is not answered in full.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct Open {
    ask: Ask,
    stream: Option<ExchangeId>,
    /// Which parts of the answer have come, by datagram.
    heard: u32,
}

/// An exchange with one member. It trusts the member in nothing: it ends after a bounded number of
/// questions and tries, whatever is answered.
#[derive(Clone, Debug)]
pub struct Running {
    /// With whom.
    pub member: NameHash,
    /// What this exchange mixes its ids with.
    pub salt: Salt,
    /// What the member gave out.
    pub cookie: Option<Cookie>,
    /// Records that changed one of the two tables.
    pub moved: usize,
    /// Records told so far, which the member may have adopted.
    pub told: usize,
    /// Exchanges that may still follow at once.
    pub follow_ups: u8,
    tries: u8,
    questions: u8,
    open: Vec<Open>,
}

impl Running {
    /// An exchange with `member`, not begun.
    #[must_use]
    pub fn new(member: NameHash, salt: Salt, path: Path, follow_ups: u8) -> Self {
        Running {
            member,
            salt,
            cookie: None,
            moved: 0,
            told: 0,
            follow_ups,
            tries: match path {
                Path::Datagrams => 0,
                Path::Streams => DATAGRAM_TRIES,
            },
            questions: 0,
            open: Vec::new(),
        }
    }

    /// What carries the present try.
    #[must_use]
    pub fn path(&self) -> Path {
        if self.tries < DATAGRAM_TRIES {
            Path::Datagrams
        } else {
            Path::Streams
        }
    }

    /// Gives up what is open, and goes on with the next try. False when there is none.
    pub fn try_again(&mut self) -> bool {
        self.tries += 1;
        self.open.clear();
        self.tries < TRIES_MAX
    }

    /// Gives up what is open, and goes on over streams. False when that is what just failed.
    pub fn use_streams(&mut self) -> bool {
        self.tries = match self.path() {
            Path::Datagrams => DATAGRAM_TRIES,
            Path::Streams => self.tries + 1,
        };
        self.open.clear();
        self.tries < TRIES_MAX
    }

    /// Gives up what is open, to ask the same once more.
    pub fn start_over(&mut self) {
        self.open.clear();
    }

    /// Notes a question. False when there have been too many.
    pub fn ask(&mut self, ask: Ask, stream: Option<ExchangeId>) -> bool {
        self.questions += 1;
        self.open.push(Open {
            ask,
            stream,
            heard: 0,
        });
        self.questions <= QUESTIONS_MAX
    }

    /// A part of an answer has come; whether it was awaited.
    pub fn answered(&mut self, ask: Ask, place: Place) -> bool {
        let Some(at) = self.open.iter().position(|open| open.ask == ask) else {
            return false;
        };
        let open = &mut self.open[at];
        if open.stream.is_some() {
            if place.is_last() {
                self.open.remove(at);
            }
            return true;
        }
        let all = u32::try_from(PARTS_MAX).unwrap_or(u32::MAX);
        if place.of == 0 || place.of > all || place.part >= place.of {
            return false;
        }
        let fresh = open.heard & (1 << place.part) == 0;
        open.heard |= 1 << place.part;
        if open.heard.count_ones() >= place.of {
            self.open.remove(at);
        }
        fresh
    }

    /// Whether `stream` carries a question that is not answered in full.
    #[must_use]
    pub fn awaits(&self, stream: ExchangeId) -> bool {
        self.open.iter().any(|open| open.stream == Some(stream))
    }

    /// Whether every question has been answered.
    #[must_use]
    pub fn is_done(&self) -> bool {
        self.open.is_empty()
    }

    /// How long to wait for an answer on the present path.
    #[must_use]
    pub fn patience(&self, round_trip: Option<Duration>) -> Duration {
        /// The least that is waited for datagrams, and how many round trips.
        const DATAGRAMS: Duration = Duration::from_millis(60);
        const ROUND_TRIPS: u32 = 8;
        /// The longest silence on a stream.
        const STREAM: Duration = Duration::from_secs(2);
        match self.path() {
            Path::Datagrams => DATAGRAMS.max(ROUND_TRIPS * round_trip.unwrap_or_default()),
            Path::Streams => STREAM,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn running(path: Path) -> Running {
        Running::new(NameHash::MIN, Salt(1), path, 0)
    }

    const fn part(part: u32, of: u32) -> Place {
        Place { part, of }
    }

    use Path::{Datagrams, Streams};

    #[test]
    fn two_tries_by_datagram_then_two_by_stream() {
        let mut exchange = running(Datagrams);
        let mut paths = vec![exchange.path()];
        while exchange.try_again() {
            paths.push(exchange.path());
        }
        assert_eq!(paths, [Datagrams, Datagrams, Streams, Streams]);
        let mut exchange = running(Datagrams);
        assert!(exchange.use_streams() && exchange.path() == Streams);
        assert!(exchange.try_again() && !exchange.try_again());
        assert!(running(Streams).use_streams());
    }

    #[test]
    fn parts_count_once_in_any_order() {
        let mut exchange = running(Datagrams);
        assert!(exchange.ask(Ask(7), None));
        assert!(!exchange.answered(Ask(8), Place::ONLY));
        assert!(exchange.answered(Ask(7), part(2, 3)));
        assert!(!exchange.answered(Ask(7), part(2, 3)), "again");
        assert!(exchange.answered(Ask(7), part(0, 3)) && !exchange.is_done());
        assert!(exchange.answered(Ask(7), part(1, 3)) && exchange.is_done());
    }

    #[test]
    fn absurd_places_are_refused() {
        let mut exchange = running(Datagrams);
        exchange.ask(Ask(7), None);
        for (number, of) in [(0, 0), (3, 3), (0, 9), (u32::MAX, u32::MAX)] {
            assert!(
                !exchange.answered(Ask(7), part(number, of)),
                "{number} of {of}"
            );
        }
        assert!(!exchange.is_done());
        let mut exchange = running(Streams);
        exchange.ask(Ask(7), Some(ExchangeId(1)));
        assert!(exchange.answered(Ask(7), part(0, u32::MAX)) && exchange.awaits(ExchangeId(1)));
        assert!(exchange.answered(Ask(7), part(u32::MAX, 0)) && exchange.is_done());
    }

    #[test]
    fn a_peer_cannot_make_it_ask_for_ever() {
        let mut exchange = running(Streams);
        let asked = (0..1000)
            .take_while(|&n| exchange.ask(Ask(n), None))
            .count();
        assert_eq!(asked, usize::from(QUESTIONS_MAX));
    }
}
