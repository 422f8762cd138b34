//! One run: the plan carried out, safety first, then liveness.

use std::collections::BTreeMap;
use std::fmt;
use std::time::Duration;

use rumord::member::Delivery;
use rumord::time::Instant;

use super::agreement::{self, Demand};
use super::coverage::Coverage;
use super::fault::{Fault, Slot, name};
use super::judge::Judge;
use super::plan::Plan;
use super::sending::{self, Sent};
use super::troubles::Troubles;
use crate::process::{Lateness, ProcessId};
use crate::rules::RuleId;
use crate::trace::Tracing;
use crate::world::{Checking, Keeping, OnViolation, Options, Restart, Start, Tampering, World};

/// How often it is looked whether all is well.
const LOOK: Duration = Duration::from_millis(500);

/// Why a run has failed.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Failure {
    /// The invariant that does not hold.
    pub invariant: String,
    /// When that was found.
    pub at: Instant,
    /// What was found.
    pub detail: String,
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let at = self.at.since(Instant::ORIGIN);
        write!(f, "{} at {at:?}: {}", self.invariant, self.detail)
    }
}

/// How a run ended.
#[derive(Clone, PartialEq, Debug)]
pub struct Outcome {
    /// What did not hold.
    pub failure: Option<Failure>,
    /// How long after the end of all faults the core agreed; `None` where that was not demanded.
    pub agreed: Option<Duration>,
    /// What happened how often.
    pub coverage: Coverage,
    /// The trace, empty unless one was wanted.
    pub trace: String,
}

/// How a plan is run.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Manner {
    /// Whether to write a trace.
    pub tracing: Tracing,
    /// How the nodes are broken on purpose.
    pub tampering: Tampering,
}

impl Manner {
    /// The core as it is, without a trace.
    pub const PLAIN: Manner = Manner {
        tracing: Tracing::Off,
        tampering: Tampering::None,
    };
}

/// Something to be done at a time.
pub(super) enum Action {
    Start(Slot),
    Begin(usize),
    Say(usize),
    Send(usize),
    Lift(Vec<RuleId>),
    Stop(ProcessId),
    DeafSlots(Slot, u32),
    TimersOnTime(ProcessId),
    Deploy(Slot, Duration, Restart),
    Return(Slot, Restart),
}

/// A plan under way.
pub(super) struct Run<'a> {
    pub(super) plan: &'a Plan,
    pub(super) world: World,
    /// The latest process of each slot.
    pub(super) slots: Vec<Option<ProcessId>>,
    /// Second processes of a name.
    pub(super) twins: Vec<(Slot, ProcessId)>,
    pub(super) troubles: Troubles,
    pub(super) coverage: Coverage,
    agenda: BTreeMap<(Instant, u64), Action>,
    planned: u64,
    judge: Judge,
    /// Events that were sent at least once.
    sent: Vec<Sent>,
}

/// Carries out `plan`.
#[must_use]
pub fn run(plan: &Plan, manner: Manner) -> Outcome {
    let mut run = Run::new(plan, manner);
    let mut agreed = None;
    let end = run.rough_times().and_then(|()| run.heal_and_agree());
    let failure = match end {
        Ok(length) => {
            agreed = length;
            None
        }
        Err(failure) => Some(failure),
    };
    run.coverage.take_in(&run.world);
    Outcome {
        failure,
        agreed,
        coverage: run.coverage,
        trace: run.world.trace().to_owned(),
    }
}

impl<'a> Run<'a> {
    fn new(plan: &'a Plan, manner: Manner) -> Self {
        let world = World::new(Options {
            seed: plan.seed,
            config: plan.config.clone(),
            link: plan.link,
            tracing: manner.tracing,
            keeping: Keeping::Events,
            checking: Checking::Everything,
            on_violation: OnViolation::Keep,
            tampering: manner.tampering,
        });
        let mut run = Run {
            plan,
            world,
            slots: vec![None; plan.starts.len()],
            twins: Vec::new(),
            troubles: Troubles::default(),
            coverage: Coverage::default(),
            agenda: BTreeMap::new(),
            planned: 0,
            judge: Judge::default(),
            sent: Vec::new(),
        };
        for (slot, start) in plan.starts.iter().enumerate() {
            run.plan_at(Instant::ORIGIN + start.at, Action::Start(slot));
        }
        for (number, planned) in plan.faults.iter().enumerate() {
            run.plan_at(Instant::ORIGIN + planned.at, Action::Begin(number));
        }
        for (number, saying) in plan.sayings.iter().enumerate() {
            run.plan_at(Instant::ORIGIN + saying.at, Action::Say(number));
        }
        for (number, sending) in plan.sendings.iter().enumerate() {
            run.plan_at(Instant::ORIGIN + sending.at, Action::Send(number));
        }
        run
    }

    pub(super) fn plan_at(&mut self, at: Instant, action: Action) {
        self.agenda.insert((at, self.planned), action);
        self.planned += 1;
    }

    /// Faults, with every invariant after every event.
    fn rough_times(&mut self) -> Result<(), Failure> {
        let end = Instant::ORIGIN + self.plan.ends;
        while let Some((&(at, _), _)) = self.agenda.first_key_value() {
            if at > end {
                break;
            }
            self.advance(at)?;
            if let Some((_, action)) = self.agenda.pop_first() {
                self.act(action);
            }
        }
        self.advance(end)
    }

    fn act(&mut self, action: Action) {
        match action {
            Action::Start(slot) => self.start(slot),
            Action::Begin(number) => {
                let fault: &Fault = &self.plan.faults[number].fault;
                self.begin(fault);
            }
            Action::Say(number) => self.say(number),
            Action::Send(number) => self.send(number),
            Action::Lift(rules) => rules.into_iter().for_each(|rule| self.world.lift(rule)),
            Action::Stop(id) => self.world.crash(id),
            Action::DeafSlots(slot, left) => self.deafen_again(slot, left),
            Action::TimersOnTime(id) => self.world.delay_timers(id, Lateness::None),
            Action::Deploy(slot, gap, way) => self.deploy(slot, gap, way),
            Action::Return(slot, way) => self.come_back(slot, way),
        }
    }

    fn start(&mut self, slot: Slot) {
        let start = &self.plan.starts[slot];
        let id = self.world.start(Start {
            address: Some(first_address(slot)),
            drift_ppm: start.drift_ppm,
            ..Start::named(&name(slot)).joining(start.join.iter().map(|&slot| first_address(slot)))
        });
        self.slots[slot] = Some(id);
    }

    /// A node that runs says something new of itself.
    fn say(&mut self, number: usize) {
        let saying = &self.plan.sayings[number];
        if let Some(id) = self.healthy(saying.slot) {
            self.world.describe(id, &saying.change(number));
            self.coverage.count("saying", saying.what.word());
        }
    }

    /// A client sends events through a node that runs and takes part.
    fn send(&mut self, number: usize) {
        let sending = &self.plan.sendings[number];
        let Some(id) = self.healthy(sending.slot) else {
            return;
        };
        if !self.world.process(id).node.state().ready {
            return;
        }
        let (delivery, bodies) = (sending.delivery, sending.bodies(number));
        let events = self.world.publish(id, delivery, bodies);
        if delivery == Delivery::AtLeastOnce {
            self.sent.push(Sent::now(&self.world, id, events));
        }
        self.coverage.count("sending", sending.word());
    }

    /// Time passes up to `end`, unless something is found on the way.
    fn advance(&mut self, end: Instant) -> Result<(), Failure> {
        while self.world.now() < end {
            let step = end.since(self.world.now()).min(LOOK);
            self.world.run_for(step);
            self.look()?;
        }
        Ok(())
    }

    fn look(&mut self) -> Result<(), Failure> {
        if let Some(violation) = self.world.violations().first() {
            return Err(Failure {
                invariant: violation.invariant.to_owned(),
                at: violation.at,
                detail: violation.to_string(),
            });
        }
        if self.plan.is_damaging() {
            return Ok(());
        }
        self.judge
            .invariant_nobody_alive_is_buried(&self.world, &self.troubles, &self.plan.config)
    }

    /// All faults end; the core must agree, and go on agreeing.
    fn heal_and_agree(&mut self) -> Result<Option<Duration>, Failure> {
        for (_, action) in std::mem::take(&mut self.agenda) {
            if let Action::Lift(rules) = action {
                rules.into_iter().for_each(|rule| self.world.lift(rule));
            }
        }
        self.heal();
        let healed = self.world.now();
        if self.plan.is_damaging() {
            self.advance(healed + agreement::WITHIN)?;
            return Ok(None);
        }
        let demand = Demand {
            core: self
                .plan
                .core
                .iter()
                .filter_map(|&slot| self.slots[slot])
                .collect(),
        };
        // Somebody waits in half of the runs; the bits that ride along must do in the others.
        if let Some(&waiter) = demand
            .core
            .first()
            .filter(|_| self.plan.seed.is_multiple_of(2))
        {
            let pause = Duration::from_millis(200);
            self.world.await_agreement(waiter, agreement::WITHIN, pause);
        }
        let pending = |run: &Self| {
            demand.pending_knowledge(&run.world)?;
            sending::pending(&run.world, &demand.core, &run.sent)
        };
        while let Err(reason) = pending(self) {
            if self.world.now().since(healed) >= agreement::WITHIN {
                return Err(self.failed("the-core-agrees", reason));
            }
            self.advance(self.world.now() + LOOK)?;
        }
        let agreed = self.world.now();
        self.advance(agreed + agreement::steady_for(&self.plan.config))?;
        let watched = self.world.now();
        while let Err(reason) = demand.steady(&self.world, agreed) {
            // The dead are not retired by all at the same instant.
            if self.world.now().since(watched) >= agreement::RETIRING {
                return Err(self.failed("agreement-lasts", reason));
            }
            self.advance(self.world.now() + LOOK)?;
        }
        Ok(Some(agreed.since(healed)))
    }

    fn failed(&self, invariant: &str, detail: String) -> Failure {
        Failure {
            invariant: invariant.to_owned(),
            at: self.world.now(),
            detail,
        }
    }
}

/// Where the first process of a slot listens.
pub(super) fn first_address(slot: Slot) -> std::net::SocketAddr {
    ([10, 99, 0, slot as u8 + 1], 7480).into()
}
