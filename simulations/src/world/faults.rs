//! Faults: processes that stand still, and rules laid on the network.

use std::net::SocketAddr;
use std::time::Duration;

use super::{Happening, World};
use crate::link::Link;
use crate::process::{Condition, ProcessId};
use crate::queue::Class;
use crate::rules::{Carried, Effect, Hosts, Rule, RuleId};

impl World {
    /// A process handles nothing for `length`; then it handles what has come, then its timers.
    pub fn pause(&mut self, id: ProcessId, length: Duration) {
        self.impair(id, Condition::Paused, length);
    }

    /// The same, but what comes meanwhile is lost.
    pub fn outage(&mut self, id: ProcessId, length: Duration) {
        self.impair(id, Condition::Outage, length);
    }

    /// The timers of a process run, but for `length` it neither sends nor receives; then it sends
    /// what it wanted to, and receives what has come.
    pub fn block_io(&mut self, id: ProcessId, length: Duration) {
        self.impair(id, Condition::IoBlocked, length);
    }

    pub(super) fn impair(&mut self, id: ProcessId, condition: Condition, length: Duration) {
        let process = &mut self.processes[id.0];
        if !process.is_up() {
            return;
        }
        process.condition = condition;
        process.changes += 1;
        let verb = match condition {
            Condition::Outage => "outage",
            Condition::IoBlocked => "block",
            _ => "pause",
        };
        self.trace
            .note(self.now, Some(process), verb, format_args!("{length:?}"));
        let resume = Happening::Resume(id, process.changes);
        self.queue.push(self.now + length, Class::Fault, resume);
        self.changes += 1;
    }

    /// A process that stands still or is starved is itself again at once.
    pub fn resume(&mut self, id: ProcessId) {
        let process = &mut self.processes[id.0];
        process.starved_until = None;
        let change = process.changes;
        if process.condition != Condition::Running {
            self.on_resume(id, change);
        }
    }

    /// A process is itself again.
    pub(super) fn on_resume(&mut self, id: ProcessId, change: u64) {
        let process = &mut self.processes[id.0];
        if process.changes != change || !process.is_up() {
            return;
        }
        process.condition = Condition::Running;
        process.changes += 1;
        let (unsent, inbox) = (
            std::mem::take(&mut process.unsent),
            std::mem::take(&mut process.inbox),
        );
        self.trace
            .note(self.now, Some(process), "resume", format_args!(""));
        for transmit in unsent {
            self.transmit(id, transmit);
        }
        for arrival in inbox {
            self.take(id, arrival);
        }
        // Its deadlines have a lower class: they come after everything that waited.
        self.processes[id.0].armed = None;
        self.arm(id);
        self.plan_stall(id);
        self.changes += 1;
    }

    /// Lays a rule on the network.
    pub fn lay(&mut self, rule: Rule) -> RuleId {
        self.trace
            .note(self.now, None, "lay", format_args!("{rule:?}"));
        self.network.lay(rule)
    }

    /// Lifts a rule, and sends on what it held.
    pub fn lift(&mut self, rule: RuleId) {
        self.trace
            .note(self.now, None, "lift", format_args!("{rule:?}"));
        for packet in self.network.lift(rule) {
            let to = packet.to;
            let sending = self.network.resend(self.now, packet);
            self.dispatch(sending, to);
        }
    }

    /// Nothing `carried` passes from one process to the other.
    pub fn cut(&mut self, from: ProcessId, to: ProcessId, carried: Carried) -> RuleId {
        self.lay(Rule {
            from: Hosts::one(self.address(from)),
            to: Hosts::one(self.address(to)),
            carried,
            effect: Effect::Lose(1.0),
        })
    }

    /// A process receives nothing `carried`.
    pub fn deafen(&mut self, id: ProcessId, carried: Carried) -> RuleId {
        self.lay(Rule {
            from: Hosts::All,
            to: Hosts::one(self.address(id)),
            carried,
            effect: Effect::Lose(1.0),
        })
    }

    /// Nothing `carried` that a process sends arrives.
    pub fn mute(&mut self, id: ProcessId, carried: Carried) -> RuleId {
        self.lay(Rule {
            from: Hosts::one(self.address(id)),
            to: Hosts::All,
            carried,
            effect: Effect::Lose(1.0),
        })
    }

    /// A process loses this share of what it sends and of what is sent to it; two rules, one per
    /// direction.
    pub fn lose(&mut self, id: ProcessId, share: f64) -> [RuleId; 2] {
        let host = Hosts::one(self.address(id));
        [(host.clone(), Hosts::All), (Hosts::All, host)].map(|(from, to)| {
            self.lay(Rule {
                from,
                to,
                carried: Carried::Everything,
                effect: Effect::Lose(share),
            })
        })
    }

    /// Nothing passes between `side` and everybody else; two rules, one per direction.
    pub fn partition(&mut self, side: &[ProcessId]) -> [RuleId; 2] {
        let inside: std::collections::BTreeSet<SocketAddr> =
            side.iter().map(|&id| self.address(id)).collect();
        let [inside, outside] = [Hosts::Only(inside.clone()), Hosts::AllBut(inside)];
        [(&inside, &outside), (&outside, &inside)].map(|(from, to)| {
            self.lay(Rule {
                from: from.clone(),
                to: to.clone(),
                carried: Carried::Everything,
                effect: Effect::Lose(1.0),
            })
        })
    }

    /// Replaces every link that has no special one.
    pub fn set_usual_link(&mut self, link: Link) {
        self.network.set_usual_link(link);
    }

    /// Replaces the link in one direction.
    pub fn set_link(&mut self, from: Hosts, to: Hosts, link: Link) {
        self.network.set_link(from, to, link);
    }
}
