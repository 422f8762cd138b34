//! A record: all that is known of one member, merged from every source.

use std::sync::Arc;

use super::{Generation, Metadata, NodeName, Standing, Version};

/// How far a heartbeat version may run ahead of the last one seen in a generation.
const VERSION_JUMP_MAX: u64 = 1 << 32;

/// Restart number and heartbeat counter of a member, after Cassandra's gossiper.
///
/// The order is by generation, then version. A heartbeat shows that a life goes on; it never
/// revives a dead member.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Default)]
pub struct HeartbeatState {
    /// Which life of the name.
    pub generation: Generation,
    /// Grows every probe period and with every change of state.
    pub version: Version,
}

impl HeartbeatState {
    /// Whether `next` is news after `self`: larger, and not so far ahead that it could freeze the
    /// counter (scylladb/scylladb#2419).
    #[must_use]
    pub fn accepts(self, next: HeartbeatState) -> bool {
        next > self
            && (next.generation > self.generation
                || next.version.0 - self.version.0 <= VERSION_JUMP_MAX)
    }
}

/// What is known of one member, as it is told to others.
///
/// [`merge`](Record::merge) is a join: commutative, associative and idempotent, so records may
/// arrive in any order, any number of times, over any path. It has two independent parts, each a
/// maximum: the standing (with the spelling of the name), and the metadata (which counts only while
/// it describes the instance that the standing names, so the tags of an earlier life never show).
/// The heartbeat is not part of it: each observer has heard another one, while the record is the
/// same everywhere and can be shared.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Record {
    /// Who.
    pub name: NodeName,
    /// The winning claim.
    pub standing: Standing,
    /// The newest self-description.
    pub metadata: Option<Arc<Metadata>>,
}

impl Record {
    /// The record that holds everything either of the two knows. Both must be about one name.
    pub fn merge(&mut self, other: &Record) {
        debug_assert_eq!(self.name.hash(), other.name.hash());
        // The spelling comes with the winning claim, so that a new life may write its name anew;
        // of two spellings in equal claims every node must keep the same.
        let claims = other.standing.cmp(&self.standing);
        if claims.then_with(|| self.name.cmp(&other.name)).is_gt() {
            self.name = other.name.clone();
        }
        self.standing = self.standing.max(other.standing);
        if other.metadata > self.metadata {
            self.metadata.clone_from(&other.metadata);
        }
    }

    /// What both know together; the same record where `told` adds nothing.
    #[must_use]
    pub fn joined(held: &Arc<Record>, told: &Arc<Record>) -> Arc<Record> {
        let mut joined = (**held).clone();
        joined.merge(told);
        if joined == **held {
            Arc::clone(held)
        } else {
            Arc::new(joined)
        }
    }

    /// The self-description, if the life that the standing speaks of has sent one and was not
    /// forgotten: what is left of a removed member is its name.
    #[must_use]
    pub fn current_metadata(&self) -> Option<&Arc<Metadata>> {
        let instance = self.standing.instance();
        self.metadata
            .as_ref()
            .filter(|metadata| (metadata.generation, metadata.node_id) == instance)
            .filter(|_| !self.standing.forgotten)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::super::{Incarnation, NodeId, Status, Tags, WireRange};
    use super::*;

    prop_compose! {
        fn standing()(
            generation in 0..3u64,
            forgotten: bool,
            strikes in 0..2u16,
            node_id in 0..2u64,
            incarnation in 0..3u32,
            status in 0..4usize,
        ) -> Standing {
            Standing {
                generation: Generation(generation),
                forgotten,
                strikes,
                node_id: NodeId(node_id),
                incarnation: Incarnation(incarnation),
                status: Status::ALL[status],
            }
        }
    }

    prop_compose! {
        fn metadata()(
            generation in 0..3u64,
            node_id in 0..2u64,
            version in 0..3u32,
            port in 1..3u16,
        ) -> Arc<Metadata> {
            Arc::new(Metadata {
                generation: Generation(generation),
                node_id: NodeId(node_id),
                version,
                address: ([127, 0, 0, 1], port).into(),
                tags: Tags::new(),
                services: Vec::new(),
                wire: WireRange { min: 1, max: 1 },
        maintenance: None,
            })
        }
    }

    prop_compose! {
        fn record()(
            upper: bool,
            standing in standing(),
            metadata in prop::option::of(metadata()),
        ) -> Record {
            Record {
                name: if upper { "N1" } else { "n1" }.parse().expect("valid"),
                standing,
                metadata,
            }
        }
    }

    fn join(left: &Record, right: &Record) -> Record {
        let mut merged = left.clone();
        merged.merge(right);
        merged
    }

    proptest! {
        /// moby/moby#47728, weaveworks/weave#1554: the outcome depended on the order of delivery.
        #[test]
        fn merge_is_commutative(a in record(), b in record()) {
            prop_assert_eq!(join(&a, &b), join(&b, &a));
        }

        #[test]
        fn merge_is_associative(a in record(), b in record(), c in record()) {
            prop_assert_eq!(join(&join(&a, &b), &c), join(&a, &join(&b, &c)));
        }

        #[test]
        fn merge_is_idempotent_and_never_moves_back(a in record(), b in record()) {
            let merged = join(&a, &b);
            prop_assert_eq!(&join(&merged, &b), &merged);
            prop_assert_eq!(&join(&merged, &a), &merged);
            prop_assert!(merged.standing >= a.standing && merged.standing >= b.standing);
        }
    }

    /// moby/moby#47728, PR#50342: leave, join and a change in quick succession were taken in
    /// another order by a peer, which then ignored the living for ever.
    #[test]
    fn a_leave_a_return_and_a_change_come_in_any_order() {
        let said = |version| Metadata {
            generation: Generation(2),
            node_id: NodeId(1),
            version,
            address: "127.0.0.1:1".parse().expect("valid"),
            tags: Tags::new(),
            services: Vec::new(),
            maintenance: None,
            wire: WireRange { min: 1, max: 1 },
        };
        let claim = |standing, metadata: Option<Metadata>| Record {
            name: "n1".parse().expect("valid"),
            standing,
            metadata: metadata.map(Arc::new),
        };
        let first = Standing::alive(Generation(1), NodeId(1));
        let second = Standing::alive(Generation(2), NodeId(1));
        let claims = [
            claim(first, None),
            claim(first.with_status(Status::Left), None),
            claim(first.with_status(Status::Left).forgotten(), None),
            claim(second, Some(said(0))),
            claim(second, Some(said(5))),
        ];
        let newest = claim(second, Some(said(5)));
        for order in 0..claims.len().pow(5) {
            // The digits of the number, so that every order and every omission in front is tried.
            let mut merged = claims[4].clone();
            for place in 0..5u32 {
                merged.merge(&claims[order / claims.len().pow(place) % claims.len()]);
            }
            assert_eq!(merged, newest);
        }
    }

    #[test]
    fn a_spelling_changes_with_a_new_life_and_not_by_an_old_claim() {
        let spelt = |name: &str, generation| Record {
            name: name.parse().expect("valid"),
            standing: Standing::alive(Generation(generation), NodeId(1)),
            metadata: None,
        };
        let mut held = spelt("N1", 1);
        held.merge(&spelt("n1", 2));
        assert_eq!(held.name.as_str(), "n1");
        held.merge(&spelt("N1", 1));
        assert_eq!(held.name.as_str(), "n1");
    }

    /// scylladb/scylladb#3798, weaveworks/mesh#13: values of the old life outlived a restart.
    #[test]
    fn a_new_life_hides_the_metadata_of_the_old() {
        let old = Arc::new(Metadata {
            generation: Generation(1),
            node_id: NodeId(1),
            version: 500,
            address: "127.0.0.1:1".parse().expect("valid"),
            tags: Tags::from([("b".into(), "1".into())]),
            services: Vec::new(),
            wire: WireRange { min: 1, max: 1 },
            maintenance: None,
        });
        let mut record = Record {
            name: "n3".parse().expect("valid"),
            standing: Standing::alive(Generation(1), NodeId(1)),
            metadata: Some(old.clone()),
        };
        let reborn = Standing::alive(Generation(2), NodeId(1));
        record.merge(&Record {
            standing: reborn,
            metadata: None,
            ..record.clone()
        });
        assert_eq!(record.current_metadata(), None);
        let new = Arc::new(Metadata {
            generation: Generation(2),
            version: 0,
            tags: Tags::new(),
            ..(*old).clone()
        });
        record.merge(&Record {
            metadata: Some(new.clone()),
            ..record.clone()
        });
        assert_eq!(record.current_metadata(), Some(&new));
    }

    /// scylladb/scylladb#2419: a heartbeat at the maximum froze a running node;
    /// scylladb/scylladb#7363: a version that goes backwards is not a sign of life.
    #[test]
    fn implausible_and_stale_heartbeats_are_refused() {
        let beat = |generation, version| HeartbeatState {
            generation: Generation(generation),
            version: Version(version),
        };
        assert!(beat(1, 10).accepts(beat(1, 11)));
        assert!(!beat(1, 10).accepts(beat(1, 10)));
        assert!(!beat(1, 5000).accepts(beat(1, 3)));
        assert!(!beat(1, 10).accepts(beat(1, u64::MAX)));
        assert!(beat(1, 5000).accepts(beat(2, 0)));
    }
}
