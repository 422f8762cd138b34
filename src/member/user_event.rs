//! Events that clients send through the cluster: who sent them, as which number, and what they say.

use std::fmt;
use std::sync::Arc;

use thiserror::Error;

use super::{Generation, NameHash, NodeName};

/// Longest name of an event, in bytes.
pub const EVENT_NAME_BYTES_MAX: usize = 128;
/// Largest payload of an event, in bytes.
pub const EVENT_PAYLOAD_BYTES_MAX: usize = 64 * 1024;

/// What is promised about an event.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum Delivery {
    /// Told a bounded number of times, and not acknowledged: a member may miss it.
    AtMostOnce,
    /// Told until every alive member has acknowledged it; a dead one stays owed while it is kept.
    AtLeastOnce,
}

impl Delivery {
    /// Both.
    pub const ALL: [Delivery; 2] = [Delivery::AtMostOnce, Delivery::AtLeastOnce];

    /// The word used in the API.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Delivery::AtMostOnce => "at-most-once",
            Delivery::AtLeastOnce => "at-least-once",
        }
    }
}

/// One event among those of all members: which life of which member sent it, and as which number.
/// Each kind of delivery is numbered by itself, from 1 on and without gaps.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct EventRef {
    /// Who sent it.
    pub origin: NameHash,
    /// In which life.
    pub generation: Generation,
    /// Which of the two sequences counts it.
    pub delivery: Delivery,
    /// Its number.
    pub sequence: u64,
}

/// What a client's idempotency key is in the cluster: the same on every node for the same cluster,
/// principal and key.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct EventKey(pub [u8; 16]);

/// The identity under which an event is logged once by every node: that of its key, where it was
/// sent with one, else its origin and number.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum Uid {
    /// Sent with a key, perhaps through several nodes.
    Keyed(EventKey),
    /// Sent without.
    Numbered {
        /// Who sent it.
        origin: NodeName,
        /// In which life.
        generation: Generation,
        /// Which of the two sequences counts it.
        delivery: Delivery,
        /// Its number.
        sequence: u64,
    },
}

impl fmt::Display for Uid {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Uid::Keyed(EventKey(bytes)) => {
                bytes.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
            }
            Uid::Numbered {
                origin,
                generation,
                delivery,
                sequence,
            } => {
                let mark = match delivery {
                    Delivery::AtLeastOnce => "",
                    Delivery::AtMostOnce => "m",
                };
                write!(f, "{origin}/{generation}/{mark}{sequence}")
            }
        }
    }
}

/// What an event is called: 1 to 128 bytes of UTF-8 without control characters. Copies share the
/// text.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct EventName(Arc<str>);

/// Why something is no event. The client's fault; nothing was sent.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum EventError {
    /// The name is empty.
    #[error("an event's name cannot be empty; give 1-128 bytes")]
    NoName,
    /// The name has more than 128 bytes.
    #[error("an event's name has at most 128 bytes, this one has {0}; shorten it")]
    LongName(usize),
    /// The name has a control character, at this byte (counted from 0).
    #[error("an event's name holds no control characters; byte {0} begins one; remove it")]
    ControlCharacter(usize),
    /// The payload has more than 64 KiB.
    #[error("an event's payload has at most 65536 bytes, this one has {0}; send a reference to it")]
    LargePayload(usize),
}

impl EventName {
    /// Checks `text` and makes a name of it.
    ///
    /// # Errors
    /// Says which rule it breaks; see [`EventError`].
    pub fn new(text: &str) -> Result<Self, EventError> {
        if text.is_empty() {
            return Err(EventError::NoName);
        }
        if text.len() > EVENT_NAME_BYTES_MAX {
            return Err(EventError::LongName(text.len()));
        }
        if let Some((place, _)) = text.char_indices().find(|(_, letter)| letter.is_control()) {
            return Err(EventError::ControlCharacter(place));
        }
        Ok(EventName(text.into()))
    }

    /// The name as text.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for EventName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// An event that a client sent.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct UserEvent {
    /// The member that took it from the client.
    pub origin: NodeName,
    /// In which life.
    pub generation: Generation,
    /// What is promised about it.
    pub delivery: Delivery,
    /// Its number among the origin's events of that life and delivery, from 1 on.
    pub sequence: u64,
    /// The client's idempotency key.
    pub key: Option<EventKey>,
    /// What the origin's wall clock showed when it took it, in milliseconds since the unix epoch.
    pub unix_ms: u64,
    /// What it is called.
    pub name: EventName,
    /// What it says.
    pub payload: Vec<u8>,
}

impl UserEvent {
    /// Which event it is.
    #[must_use]
    pub fn event_ref(&self) -> EventRef {
        EventRef {
            origin: self.origin.hash(),
            generation: self.generation,
            delivery: self.delivery,
            sequence: self.sequence,
        }
    }

    /// What it is logged once for.
    #[must_use]
    pub fn uid(&self) -> Uid {
        match self.key {
            Some(key) => Uid::Keyed(key),
            None => Uid::Numbered {
                origin: self.origin.clone(),
                generation: self.generation,
                delivery: self.delivery,
                sequence: self.sequence,
            },
        }
    }

    /// Whether it says the same as `other`, whoever took it.
    #[must_use]
    pub fn says_the_same(&self, other: &UserEvent) -> bool {
        self.content() == other.content()
    }

    /// Of two events under one key that say different things, whether this is the one that counts:
    /// the one that was taken earlier; where the clocks agree, the smaller origin or content. The
    /// same on every node.
    #[must_use]
    pub fn prevails_over(&self, other: &UserEvent) -> bool {
        let rank = |event: &UserEvent| (event.unix_ms, event.origin.hash());
        (rank(self), self.content()) < (rank(other), other.content())
    }

    fn content(&self) -> (Delivery, &EventName, &[u8]) {
        (self.delivery, &self.name, &self.payload)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn event(origin: &str, unix_ms: u64, payload: &str) -> UserEvent {
        UserEvent {
            origin: origin.parse().expect("valid"),
            generation: Generation(7),
            delivery: Delivery::AtLeastOnce,
            sequence: 3,
            key: None,
            unix_ms,
            name: EventName::new("deploy").expect("valid"),
            payload: payload.into(),
        }
    }

    #[test]
    fn an_event_without_key_is_its_origin_and_number() {
        let one = event("n1", 5, "v1");
        assert_eq!(one.uid().to_string(), "n1/7/3");
        let most = UserEvent {
            delivery: Delivery::AtMostOnce,
            ..one.clone()
        };
        assert_eq!(most.uid().to_string(), "n1/7/m3");
        let keyed = UserEvent {
            key: Some(EventKey([0xab; 16])),
            ..one
        };
        assert_eq!(keyed.uid().to_string(), "ab".repeat(16));
    }

    #[test]
    fn of_two_events_under_one_key_exactly_one_prevails() {
        let events = [
            event("n1", 5, "v1"),
            event("n1", 5, "v2"),
            event("n2", 5, "v1"),
            event("n2", 6, "v1"),
        ];
        for (place, one) in events.iter().enumerate() {
            for other in &events[place + 1..] {
                assert_ne!(one.prevails_over(other), other.prevails_over(one));
            }
        }
        assert!(events[0].prevails_over(&events[3]));
        assert!(events[0].says_the_same(&events[3]));
        assert!(!events[0].says_the_same(&events[1]));
    }

    #[test]
    fn names_are_checked() {
        assert_eq!(EventName::new(""), Err(EventError::NoName));
        assert_eq!(
            EventName::new(&"é".repeat(65)),
            Err(EventError::LongName(130))
        );
        assert_eq!(EventName::new("a\nb"), Err(EventError::ControlCharacter(1)));
        assert_eq!(
            EventName::new("Deploy 1 é").map(|n| n.to_string()),
            Ok("Deploy 1 é".into())
        );
    }
}
