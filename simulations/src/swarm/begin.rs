//! Faults begin.

use std::time::Duration;

use super::fault::{Fault, Slot, name};
use super::run::{Action, Run, first_address};
use super::troubles::{Interval, Peers};
use crate::process::{Condition, ProcessId};
use crate::rules::{Carried, Effect, Hosts, Rule, RuleId};
use crate::world::{Restart, Start};

/// How long a node that leaves goes on running.
const LEAVE_TIME: Duration = Duration::from_millis(1500);
/// How long a leave may take.
const LEAVE_TIMEOUT: Duration = Duration::from_secs(1);
/// Length of one short outage.
const DEAF_SLOT: Duration = Duration::from_millis(100);
/// From the start of one to the next.
const DEAF_PERIOD: Duration = Duration::from_secs(1);
/// How long a node is down in a rolling deployment.
const DEPLOY_DOWN: Duration = Duration::from_millis(500);

impl Run<'_> {
    /// Does `fault`, unless there is nobody to suffer it.
    pub(super) fn begin(&mut self, fault: &Fault) {
        if self.suffer(fault).is_some() {
            self.coverage.count("fault", fault.word());
        } else {
            self.coverage.count("skipped", fault.word());
        }
    }

    /// `None` when there is nobody to suffer it.
    fn suffer(&mut self, fault: &Fault) -> Option<()> {
        match fault {
            Fault::Crash(slot) => {
                let id = self.running(*slot)?;
                self.world.crash(id);
            }
            Fault::Restart(slot, way) => self.restart(*slot, *way)?,
            Fault::Leave(slot) => {
                let id = self.healthy(*slot)?;
                self.world.leave(id, LEAVE_TIMEOUT);
                self.plan_at(self.world.now() + LEAVE_TIME, Action::Stop(id));
            }
            Fault::Pause(slot, length) => {
                let id = self.standing(*slot, *length)?;
                self.world.pause(id, *length);
            }
            Fault::Outage(slot, length) => {
                let id = self.standing(*slot, *length)?;
                self.world.outage(id, *length);
            }
            Fault::BlockIo(slot, length) => {
                let id = self.standing(*slot, *length)?;
                self.world.block_io(id, *length);
            }
            Fault::DeafSlots(slot, times) => {
                self.healthy(*slot)?;
                self.deafen_again(*slot, *times);
            }
            _ => return self.suffer_from_host(fault),
        }
        Some(())
    }

    fn suffer_from_host(&mut self, fault: &Fault) -> Option<()> {
        match fault {
            Fault::Starve(slot, length) => {
                let id = self.healthy(*slot)?;
                self.world.starve(id, *length);
            }
            Fault::SlowTimers(slot, lateness, length) => {
                let id = self.healthy(*slot)?;
                self.world.delay_timers(id, *lateness);
                self.plan_at(self.world.now() + *length, Action::TimersOnTime(id));
            }
            Fault::StepClock(slot, seconds) => {
                let id = self.slots[*slot]?;
                self.world.step_wall_clock(id, *seconds);
            }
            Fault::Deploy(gap, way) => self.deploy(0, *gap, *way),
            Fault::Forget(asked, whom) => {
                let (id, whom) = (self.healthy(*asked)?, self.slots[*whom]?);
                let whom = self.world.process(whom).name.clone();
                self.world.forget(id, &whom);
            }
            _ => return self.suffer_from_network(fault),
        }
        Some(())
    }

    fn suffer_from_network(&mut self, fault: &Fault) -> Option<()> {
        match fault {
            Fault::OneWayCut(from, to, carried, length) => {
                let rule = self.cut(*from, *to, *carried)?;
                self.between(*from, *to, vec![rule], *length);
            }
            Fault::Cut(one, other, carried, length) => {
                let forth = self.cut(*one, *other, *carried)?;
                let back = self.cut(*other, *one, *carried)?;
                self.between(*one, *other, vec![forth, back], *length);
            }
            Fault::Partition(side, length) => {
                let ids: Vec<_> = side.iter().filter_map(|&slot| self.running(slot)).collect();
                let rules = self.world.partition(&ids).to_vec();
                let all = 0..self.slots.len();
                self.until_lifted(all.collect(), rules, *length);
            }
            Fault::Deafen(slot, carried, length) => {
                let rule = self.world.deafen(self.running(*slot)?, *carried);
                self.until_lifted(vec![*slot], vec![rule], *length);
            }
            Fault::Mute(slot, carried, length) => {
                let rule = self.world.mute(self.running(*slot)?, *carried);
                self.until_lifted(vec![*slot], vec![rule], *length);
            }
            Fault::Hold(from, to, length) => {
                let [from_host, to_host] = [*from, *to].map(|slot| self.host(slot));
                let rule = self.world.lay(Rule {
                    from: from_host?,
                    to: to_host?,
                    carried: Carried::Datagrams,
                    effect: Effect::Hold,
                });
                self.between(*from, *to, vec![rule], *length);
            }
            Fault::Lossy(slot, share, length) => {
                let rules = self.lose(*slot, *share)?;
                self.until_lifted(vec![*slot], rules, *length);
            }
            Fault::Twin(slot, length) => self.start_twin(*slot, *length)?,
            Fault::Crowd(slot) => self.crowd(*slot)?,
            _ => return None,
        }
        Some(())
    }

    /// The process of a slot, if one runs, however badly.
    pub(super) fn running(&self, slot: Slot) -> Option<ProcessId> {
        self.slots[slot].filter(|&id| self.world.process(id).is_up())
    }

    /// The process of a slot, if nothing is the matter with it.
    pub(super) fn healthy(&self, slot: Slot) -> Option<ProcessId> {
        self.running(slot)
            .filter(|&id| self.world.process(id).condition == Condition::Running)
    }

    /// The same, for one that is to stand still from now on.
    fn standing(&mut self, slot: Slot, length: Duration) -> Option<ProcessId> {
        let id = self.healthy(slot)?;
        let interval = self.interval_of(length);
        self.troubles.stands_still(slot, interval);
        Some(id)
    }

    fn interval_of(&self, length: Duration) -> Interval {
        let since = self.world.now();
        Interval {
            since,
            until: since + length,
        }
    }

    fn host(&self, slot: Slot) -> Option<Hosts> {
        Some(Hosts::one(self.world.address(self.running(slot)?)))
    }

    fn cut(&mut self, from: Slot, to: Slot, carried: Carried) -> Option<RuleId> {
        let (from, to) = (self.running(from)?, self.running(to)?);
        Some(self.world.cut(from, to, carried))
    }

    fn lose(&mut self, slot: Slot, share: f64) -> Option<Vec<RuleId>> {
        let one = self.running(slot)?;
        Some(self.world.lose(one, share).to_vec())
    }

    /// Rules that trouble two nodes with one another.
    fn between(&mut self, one: Slot, other: Slot, rules: Vec<RuleId>, length: Duration) {
        let interval = self.interval_of(length);
        self.troubles.is_cut(one, Peers::One(other), interval);
        self.troubles.is_cut(other, Peers::One(one), interval);
        self.plan_at(interval.until, Action::Lift(rules));
    }

    /// Rules that trouble nodes with all others.
    fn until_lifted(&mut self, slots: Vec<Slot>, rules: Vec<RuleId>, length: Duration) {
        let interval = self.interval_of(length);
        for slot in slots {
            self.troubles.is_cut(slot, Peers::All, interval);
        }
        self.plan_at(interval.until, Action::Lift(rules));
    }

    /// One short outage, and `left - 1` more.
    pub(super) fn deafen_again(&mut self, slot: Slot, left: u32) {
        if let Some(id) = self.standing(slot, DEAF_SLOT) {
            self.world.outage(id, DEAF_SLOT);
        }
        if left > 1 {
            let next = Action::DeafSlots(slot, left - 1);
            self.plan_at(self.world.now() + DEAF_PERIOD, next);
        }
    }

    pub(super) fn restart(&mut self, slot: Slot, way: Restart) -> Option<()> {
        let id = self.slots[slot]?;
        self.world.crash(id);
        self.slots[slot] = Some(self.world.restart(id, way));
        Some(())
    }

    /// Restarts the node of a slot, if it runs, and after `gap` those of all later ones.
    pub(super) fn deploy(&mut self, slot: Slot, gap: Duration, way: Restart) {
        if let Some(id) = self.running(slot) {
            self.world.crash(id);
            let back = self.world.now() + DEPLOY_DOWN;
            self.plan_at(back, Action::Return(slot, way));
        }
        if slot + 1 < self.slots.len() {
            let next = Action::Deploy(slot + 1, gap, way);
            self.plan_at(self.world.now() + gap, next);
        }
    }

    /// The node of a slot comes back, unless something else has brought it back meanwhile.
    pub(super) fn come_back(&mut self, slot: Slot, way: Restart) {
        if self.running(slot).is_none() {
            self.restart(slot, way);
        }
    }

    fn crowd(&mut self, slot: Slot) -> Option<()> {
        let address = [self.world.address(self.running(slot)?)];
        for other in 0..self.slots.len() {
            if let Some(id) = self.running(other) {
                self.world.join(id, &address);
            }
        }
        Some(())
    }

    fn start_twin(&mut self, slot: Slot, length: Duration) -> Option<()> {
        self.running(slot)?;
        let join = (0..self.slots.len()).map(first_address);
        let twin = self.world.start(Start::named(&name(slot)).joining(join));
        self.twins.push((slot, twin));
        self.plan_at(self.world.now() + length, Action::Stop(twin));
        Some(())
    }
}
