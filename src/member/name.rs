//! Member names and their wire form, the name hash.

use std::fmt;
use std::str::FromStr;
use std::sync::Arc;

use thiserror::Error;

/// Longest member name, in bytes.
pub const NAME_BYTES_MAX: usize = 63;

const NAME_HASH_DOMAIN: u64 = 1;

/// The name of a member: 1 to 63 bytes of `[A-Za-z0-9._-]`, unique in a cluster ignoring case.
///
/// Cloning is cheap: copies share the text.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct NodeName {
    text: Arc<str>,
    /// Follows from the text; asked for too often to be worked out each time.
    hash: NameHash,
}

/// Why a text is not a member name. The caller's or operator's fault; nothing was changed.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum NameError {
    /// The text is empty.
    #[error("a name cannot be empty; give 1-63 characters of A-Z a-z 0-9 . _ -")]
    Empty,
    /// The text has more than 63 bytes.
    #[error("a name has at most 63 bytes, this one has {0}; shorten it")]
    TooLong(usize),
    /// The text has a byte outside the allowed set, at this position (counted from 0).
    #[error("a name holds only A-Z a-z 0-9 . _ -; byte {position} is 0x{byte:02x}; replace it")]
    Forbidden {
        /// Where the byte stands.
        position: usize,
        /// The byte.
        byte: u8,
    },
}

impl NodeName {
    /// Checks `bytes` and makes a name of them.
    ///
    /// # Errors
    /// Says which rule the bytes break; see [`NameError`].
    pub fn from_bytes(bytes: &[u8]) -> Result<Self, NameError> {
        if bytes.is_empty() {
            return Err(NameError::Empty);
        }
        if bytes.len() > NAME_BYTES_MAX {
            return Err(NameError::TooLong(bytes.len()));
        }
        for (position, &byte) in bytes.iter().enumerate() {
            if !(byte.is_ascii_alphanumeric() || matches!(byte, b'.' | b'_' | b'-')) {
                return Err(NameError::Forbidden { position, byte });
            }
        }
        let text: String = bytes.iter().map(|&byte| char::from(byte)).collect();
        Ok(NodeName {
            hash: hash(bytes),
            text: text.into(),
        })
    }

    /// The name as text.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.text
    }

    /// The hash that stands for this name on the wire. Names that differ only in case share it.
    #[must_use]
    pub fn hash(&self) -> NameHash {
        self.hash
    }
}

/// The hash of a name, without regard to case.
fn hash(name: &[u8]) -> NameHash {
    let mut lower = [0; NAME_BYTES_MAX];
    let lower = &mut lower[..name.len()];
    lower.copy_from_slice(name);
    lower.make_ascii_lowercase();
    NameHash(super::keyed_hash(NAME_HASH_DOMAIN, lower))
}

impl FromStr for NodeName {
    type Err = NameError;

    fn from_str(text: &str) -> Result<Self, NameError> {
        Self::from_bytes(text.as_bytes())
    }
}

impl fmt::Display for NodeName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

impl fmt::Debug for NodeName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

/// A member on the wire and as a key: the keyed hash of its lower-cased name.
///
/// The order of name hashes is the order of the hash ring that prompt push walks, so that a sorted
/// table is the ring.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct NameHash(u64);

impl NameHash {
    /// The smallest hash: where a walk around the ring begins.
    pub const MIN: NameHash = NameHash(0);

    /// The hash from its raw wire bytes.
    #[must_use]
    pub const fn from_wire(bytes: [u8; 8]) -> Self {
        NameHash(u64::from_be_bytes(bytes))
    }

    /// The raw wire bytes.
    #[must_use]
    pub const fn to_wire(self) -> [u8; 8] {
        self.0.to_be_bytes()
    }
}

impl fmt::Debug for NameHash {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:016x}", self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// hashicorp/nomad PR#915, hashicorp/serf PR#612, ansible/receptor#396: names counted in
    /// characters but limited in bytes, blanks and control characters accepted.
    #[test]
    fn odd_names_are_rejected_with_the_reason() {
        let check = |text: &str| text.parse::<NodeName>();
        assert!(check("a").is_ok());
        assert!(check("A-b_c.9").is_ok());
        assert!(check(&"x".repeat(63)).is_ok());
        assert_eq!(check(""), Err(NameError::Empty));
        assert_eq!(check(&"x".repeat(64)), Err(NameError::TooLong(64)));
        for bad in [" ", "a b", "a\nb", "a\0", "../x", "é", "\u{202e}x", "a:b"] {
            assert!(
                matches!(check(bad), Err(NameError::Forbidden { .. })),
                "{bad:?}"
            );
        }
        assert_eq!(
            NodeName::from_bytes(&[b'a', 0xff]),
            Err(NameError::Forbidden {
                position: 1,
                byte: 0xff
            })
        );
    }

    #[test]
    fn names_that_differ_in_case_collide() {
        let name = |text: &str| text.parse::<NodeName>().expect("valid").hash();
        assert_eq!(name("Web-1"), name("web-1"));
        assert_ne!(name("web-1"), name("web-2"));
    }

    #[test]
    fn the_hash_is_pinned() {
        let hash = "n1".parse::<NodeName>().expect("valid").hash();
        assert_eq!(NameHash::from_wire(hash.to_wire()), hash);
        assert_eq!(format!("{hash:?}"), "65c45503cfc8c4f7");
    }
}
