//! Rules laid on the network while it runs: cuts, partitions, lossy hosts, held packets.

use std::collections::{BTreeMap, BTreeSet};
use std::net::SocketAddr;

/// One end of a rule.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Hosts {
    /// Every address.
    All,
    /// These.
    Only(BTreeSet<SocketAddr>),
    /// All but these.
    AllBut(BTreeSet<SocketAddr>),
}

impl Hosts {
    /// One address.
    #[must_use]
    pub fn one(address: SocketAddr) -> Self {
        Hosts::Only(BTreeSet::from([address]))
    }

    /// Whether `address` is among them.
    #[must_use]
    pub fn contain(&self, address: SocketAddr) -> bool {
        match self {
            Hosts::All => true,
            Hosts::Only(some) => some.contains(&address),
            Hosts::AllBut(some) => !some.contains(&address),
        }
    }
}

impl FromIterator<SocketAddr> for Hosts {
    fn from_iter<I: IntoIterator<Item = SocketAddr>>(addresses: I) -> Self {
        Hosts::Only(addresses.into_iter().collect())
    }
}

/// What a rule applies to.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Carried {
    /// Datagrams only.
    Datagrams,
    /// Streams only.
    Streams,
    /// Both.
    Everything,
}

impl Carried {
    fn covers(self, carried: Carried) -> bool {
        self == Carried::Everything || self == carried
    }
}

/// What a rule does to what it applies to.
#[derive(Clone, Copy, PartialEq, Debug)]
pub enum Effect {
    /// Loses this share, 0 to 1; 1 is a cut.
    Lose(f64),
    /// Keeps it back until the rule is lifted.
    Hold,
}

/// One rule, for one direction.
#[derive(Clone, PartialEq, Debug)]
pub struct Rule {
    /// Where from.
    pub from: Hosts,
    /// Where to.
    pub to: Hosts,
    /// What it applies to.
    pub carried: Carried,
    /// What it does.
    pub effect: Effect,
}

/// Names a rule that has been laid.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct RuleId(u64);

/// What the rules say about one packet.
#[derive(Clone, Copy, PartialEq, Debug)]
pub enum Ruling {
    /// It passes unless lost with this probability; 1 is a cut.
    Lose(f64),
    /// It waits.
    Hold,
}

/// All rules in force.
#[derive(Debug, Default)]
pub struct Rules {
    rules: BTreeMap<RuleId, Rule>,
    laid: u64,
}

impl Rules {
    /// Lays a rule.
    pub fn lay(&mut self, rule: Rule) -> RuleId {
        let id = RuleId(self.laid);
        self.laid += 1;
        self.rules.insert(id, rule);
        id
    }

    /// Lifts a rule; nothing happens when it is lifted already.
    pub fn lift(&mut self, id: RuleId) {
        self.rules.remove(&id);
    }

    /// What they say about something `carried` from one address to another. A cut beats a hold,
    /// and losses add up as independent ones do.
    #[must_use]
    pub fn ruling(&self, from: SocketAddr, to: SocketAddr, carried: Carried) -> Ruling {
        let (mut passes, mut held) = (1.0, false);
        for rule in self.rules.values() {
            if rule.carried.covers(carried) && rule.from.contain(from) && rule.to.contain(to) {
                match rule.effect {
                    Effect::Lose(share) => passes *= 1.0 - share,
                    Effect::Hold => held = true,
                }
            }
        }
        if held && passes > 0.0 {
            Ruling::Hold
        } else {
            Ruling::Lose(1.0 - passes)
        }
    }

    /// Whether nothing `carried` passes from one address to the other at present.
    #[must_use]
    pub fn is_cut(&self, from: SocketAddr, to: SocketAddr, carried: Carried) -> bool {
        self.ruling(from, to, carried) == Ruling::Lose(1.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_rule_has_a_direction_and_a_carrier() {
        let [a, b]: [SocketAddr; 2] = [1, 2].map(|port| ([10, 0, 0, 1], port).into());
        let mut rules = Rules::default();
        let cut = rules.lay(Rule {
            from: Hosts::one(a),
            to: Hosts::one(b),
            carried: Carried::Datagrams,
            effect: Effect::Lose(1.0),
        });
        assert!(rules.is_cut(a, b, Carried::Datagrams));
        assert!(!rules.is_cut(b, a, Carried::Datagrams));
        assert!(!rules.is_cut(a, b, Carried::Streams));
        rules.lift(cut);
        assert!(!rules.is_cut(a, b, Carried::Datagrams));
    }

    #[test]
    fn losses_add_up_and_a_cut_beats_a_hold() {
        let [a, b]: [SocketAddr; 2] = [1, 2].map(|port| ([10, 0, 0, 1], port).into());
        let mut rules = Rules::default();
        let rule = |effect| Rule {
            from: Hosts::All,
            to: Hosts::AllBut(BTreeSet::from([a])),
            carried: Carried::Everything,
            effect,
        };
        rules.lay(rule(Effect::Lose(0.5)));
        rules.lay(rule(Effect::Lose(0.5)));
        assert_eq!(rules.ruling(a, b, Carried::Datagrams), Ruling::Lose(0.75));
        assert_eq!(rules.ruling(b, a, Carried::Datagrams), Ruling::Lose(0.0));
        rules.lay(rule(Effect::Hold));
        assert_eq!(rules.ruling(a, b, Carried::Streams), Ruling::Hold);
        rules.lay(rule(Effect::Lose(1.0)));
        assert!(rules.is_cut(a, b, Carried::Streams));
    }
}
