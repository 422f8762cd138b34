//! What requests, keys and events are recognized by.

use sha2::{Digest, Sha256};

use crate::member::{Delivery, EventKey, EventName, UserEvent};

/// A SHA-256.
pub(super) type Sum = [u8; 32];

/// What a request is, whenever it is sent again: its method, its path with the query, its body.
pub(super) fn fingerprint(method: &str, target: &str, body: &[u8]) -> Sum {
    sum(&[method.as_bytes(), target.as_bytes(), body])
}

/// What a key of a principal is in a cluster, on every node: the first 16 bytes of the sum.
pub(super) fn event_key(cluster: &str, principal: &str, key: &str) -> EventKey {
    let sum = sum(&[cluster.as_bytes(), principal.as_bytes(), key.as_bytes()]);
    let mut bytes = [0; 16];
    bytes.copy_from_slice(&sum[..16]);
    EventKey(bytes)
}

/// What an event says, whoever took it.
pub(super) fn content(delivery: Delivery, name: &EventName, payload: &[u8]) -> Sum {
    let delivery = delivery.as_str().as_bytes();
    sum(&[delivery, name.as_str().as_bytes(), payload])
}

/// What `event` says.
pub(super) fn content_of(event: &UserEvent) -> Sum {
    content(event.delivery, &event.name, &event.payload)
}

/// Each part after its length, so that no two lists of parts are the same bytes.
fn sum(parts: &[&[u8]]) -> Sum {
    let mut digest = Sha256::new();
    for part in parts {
        digest.update((part.len() as u64).to_be_bytes());
        digest.update(part);
    }
    digest.finalize().into()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_do_not_run_into_each_other() {
        let one = fingerprint("POST", "/v1/events", b"{}");
        assert_eq!(one, fingerprint("POST", "/v1/events", b"{}"));
        assert_ne!(one, fingerprint("POST", "/v1/event", b"s{}"));
        assert_ne!(one, fingerprint("PUT", "/v1/events", b"{}"));
        assert_ne!(event_key("a", "b", "c"), event_key("a", "", "bc"));
        assert_ne!(event_key("a", "", "c"), event_key("b", "", "c"));
    }

    /// Nodes of different versions must agree, so this never changes.
    #[test]
    fn the_key_of_an_event_is_the_same_on_every_node() {
        let EventKey(bytes) = event_key("default", "", "order-1");
        let text: String = bytes.iter().map(|byte| format!("{byte:02x}")).collect();
        assert_eq!(text, "ab76f7755c7ec360c5bd3c705d25cf2c");
    }
}
