//! Which members to ask to relay a ping.

use std::collections::BTreeMap;

use crate::member::NameHash;

/// A member that could be asked, and what speaks for it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Candidate<'a> {
    /// Who.
    pub member: NameHash,
    /// Whether it was asked in this case already.
    pub asked: bool,
    /// Whether it observes the accused: it had an answer of it not long ago, and says when.
    pub observer: bool,
    /// Where it stands, by its own account; `None` when it says nothing.
    pub zone: Option<&'a str>,
}

/// The `wanted` best of `candidates`: those not asked yet come first, then observers of the accused
/// and else the order given, which should be random. Zones take turns, so that loss between two
/// places is not taken for a fault of the accused: some of the relays stand beside it.
#[must_use]
pub fn choose(mut candidates: Vec<Candidate<'_>>, wanted: usize) -> Vec<NameHash> {
    candidates.sort_by_key(|it| (it.asked, !it.observer));
    let mut turns = BTreeMap::<(bool, Option<&str>), usize>::new();
    let mut ranked: Vec<(bool, usize, NameHash)> = candidates
        .iter()
        .map(|it| {
            let turn = turns.entry((it.asked, it.zone)).or_default();
            *turn += 1;
            (it.asked, *turn, it.member)
        })
        .collect();
    ranked.sort_by_key(|&(asked, turn, _)| (asked, turn));
    ranked.truncate(wanted);
    ranked.into_iter().map(|(_, _, member)| member).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn who(n: u64) -> NameHash {
        NameHash::from_wire(n.to_be_bytes())
    }

    fn candidate(n: u64, asked: bool, observer: bool, zone: Option<&str>) -> Candidate<'_> {
        Candidate {
            member: who(n),
            asked,
            observer,
            zone,
        }
    }

    #[test]
    fn observers_not_asked_yet_come_first_and_the_rest_as_given() {
        let all = vec![
            candidate(1, false, false, None),
            candidate(2, true, true, None),
            candidate(3, false, true, None),
            candidate(4, false, false, None),
        ];
        assert_eq!(choose(all.clone(), 9), [3, 1, 4, 2].map(who));
        assert_eq!(choose(all, 2), [3, 1].map(who));
    }

    #[test]
    fn zones_take_turns() {
        let all = vec![
            candidate(1, false, true, Some("a")),
            candidate(2, false, true, Some("a")),
            candidate(3, false, false, Some("a")),
            candidate(4, false, false, Some("b")),
            candidate(5, true, false, Some("b")),
        ];
        assert_eq!(choose(all, 3), [1, 4, 2].map(who));
    }
}
