//! What members tell each other, in bytes of the estimated length: 24 a message, 18 an update.

use crate::compare::contender::{Member, View};

/// Bytes of a message without updates.
const HEADER_BYTES: usize = 24;
/// Bytes of one update.
pub const UPDATE_BYTES: usize = 18;

/// A claim about a member.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Update {
    /// About whom.
    pub subject: Member,
    /// What it is.
    pub view: View,
    /// In which of its incarnations.
    pub incarnation: u32,
    /// Who says so by its own probe: different ones confirm each other.
    pub accuser: Member,
}

/// What a message is for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Kind {
    /// Answer me.
    Ping,
    /// An answer to the ping of this number.
    Ack,
    /// Ping this one for me.
    PingReq(Member),
    /// The one that I was asked to ping has not answered.
    Nack,
    /// News only.
    Gossip,
}

/// A message.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Message {
    /// What it is for.
    pub kind: Kind,
    /// The probe's number at the one who asked.
    pub number: u32,
    /// News.
    pub updates: Vec<Update>,
}

impl Message {
    /// Its bytes.
    #[must_use]
    pub fn encode(&self) -> Vec<u8> {
        let (kind, target) = match self.kind {
            Kind::Ping => (0, 0),
            Kind::Ack => (1, 0),
            Kind::PingReq(target) => (2, target.0 as u32),
            Kind::Nack => (3, 0),
            Kind::Gossip => (4, 0),
        };
        let mut bytes = Vec::with_capacity(HEADER_BYTES + UPDATE_BYTES * self.updates.len());
        bytes.push(kind);
        bytes.extend(self.number.to_be_bytes());
        bytes.extend(target.to_be_bytes());
        bytes.resize(HEADER_BYTES, 0);
        for update in &self.updates {
            let end = bytes.len() + UPDATE_BYTES;
            bytes.push(update.view as u8);
            let numbers = [
                update.subject.0 as u32,
                update.incarnation,
                update.accuser.0 as u32,
            ];
            bytes.extend(numbers.iter().flat_map(|number| number.to_be_bytes()));
            bytes.resize(end, 0);
        }
        bytes
    }

    /// Reads them again; `None` if they were damaged on the way.
    #[must_use]
    pub fn decode(bytes: &[u8]) -> Option<Self> {
        let (header, rest) = bytes.split_at_checked(HEADER_BYTES)?;
        let kind = match header[0] {
            0 => Kind::Ping,
            1 => Kind::Ack,
            2 => Kind::PingReq(Member(number(header, 5)? as usize)),
            3 => Kind::Nack,
            4 => Kind::Gossip,
            _ => return None,
        };
        let update = |bytes: &[u8]| {
            let view = match bytes[0] {
                0 => View::Alive,
                1 => View::Suspect,
                2 => View::Dead,
                _ => return None,
            };
            Some(Update {
                subject: Member(number(bytes, 1)? as usize),
                view,
                incarnation: number(bytes, 5)?,
                accuser: Member(number(bytes, 9)? as usize),
            })
        };
        let updates: Option<Vec<Update>> = rest.chunks_exact(UPDATE_BYTES).map(update).collect();
        Some(Message {
            kind,
            number: number(header, 1)?,
            updates: updates?,
        })
    }
}

fn number(bytes: &[u8], at: usize) -> Option<u32> {
    let bytes = bytes.get(at..at + 4)?.try_into().ok()?;
    Some(u32::from_be_bytes(bytes))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn messages_are_read_as_they_were_written() {
        let update = Update {
            subject: Member(70_000),
            view: View::Suspect,
            incarnation: 3,
            accuser: Member(1),
        };
        let kinds = [
            Kind::Ping,
            Kind::Ack,
            Kind::PingReq(Member(9)),
            Kind::Nack,
            Kind::Gossip,
        ];
        for kind in kinds {
            let message = Message {
                kind,
                number: 77,
                updates: vec![update; 3],
            };
            let bytes = message.encode();
            assert_eq!(bytes.len(), 24 + 3 * 18);
            assert_eq!(Message::decode(&bytes), Some(message));
            assert_eq!(Message::decode(&bytes[..10]), None);
        }
    }
}
