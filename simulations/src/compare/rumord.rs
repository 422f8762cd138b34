//! Our own core as a contender: the [`World`] of all other commands.

use std::time::Duration;

use rumord::member::{NodeName, Status};
use rumord::protocol::{Config, Direction, EventKind, Evidence, MemberEvent, Schedule, Transport};
use rumord::time::Instant;

use super::contender::{Change, Contender, Member, Sent, Setting, View};
use crate::process::ProcessId;
use crate::rules::RuleId;
use crate::world::{Checking, Keeping, Options, Restart, Start, WatchId, World};

/// Begins the name of every member.
const PREFIX: &str = "n";

/// rumord members in simulated time.
pub struct RumordWorld {
    world: World,
    /// The present run of each member.
    runs: Vec<ProcessId>,
    cuts: Vec<RuleId>,
    told: Option<WatchId>,
}

impl RumordWorld {
    /// An empty world of members that probe each other by this schedule.
    #[must_use]
    pub fn scheduled(setting: &Setting, schedule: Schedule) -> Self {
        let config = Config {
            schedule,
            ..setting.profile.config()
        };
        let options = Options {
            config,
            link: setting.link,
            keeping: match setting.keeping {
                true => Keeping::Events,
                false => Keeping::Nothing,
            },
            checking: match setting.checked {
                true => Checking::Everything,
                false => Checking::Nothing,
            },
            ..Options::seeded(setting.seed)
        };
        RumordWorld {
            world: World::new(options),
            runs: Vec::new(),
            cuts: Vec::new(),
            told: None,
        }
    }

    fn run(&self, member: Member) -> ProcessId {
        self.runs[member.0]
    }

    fn add(&mut self, run: ProcessId) -> Member {
        self.runs.push(run);
        Member(self.runs.len() - 1)
    }
}

/// The member of this name: all are numbered from 1.
fn numbered(name: &NodeName) -> Option<Member> {
    let number: usize = name.as_str().strip_prefix(PREFIX)?.parse().ok()?;
    Some(Member(number.checked_sub(1)?))
}

/// What the table says after `event`; `None` if it is not about a member's status.
fn view(event: &MemberEvent) -> Option<View> {
    if matches!(event.kind, EventKind::Conflict | EventKind::Isolated) {
        return None;
    }
    Some(match event.to {
        Status::Alive => View::Alive,
        Status::Suspect => View::Suspect,
        Status::Dead | Status::Left => View::Dead,
    })
}

/// The evidence of an accusation that rests on the observer's own.
fn why(event: &MemberEvent) -> Option<String> {
    let accused = matches!(event.kind, EventKind::MemberSuspect | EventKind::MemberDead);
    let own = |evidence: &&Evidence| accused && evidence.rule != "told";
    let evidence = event.evidence.as_ref().filter(own)?;
    Some(format!(
        "rule {}, phi {:.1}, {} witnesses, silent for {:.3} s",
        evidence.rule,
        evidence.phi,
        evidence.witnesses,
        evidence.silence.as_secs_f64()
    ))
}

impl Contender for RumordWorld {
    fn empty(setting: &Setting) -> Self {
        RumordWorld::scheduled(setting, Schedule::Slots)
    }

    fn start_full(&mut self, count: usize) -> Vec<Member> {
        let runs = self.world.start_full(count);
        runs.into_iter().map(|run| self.add(run)).collect()
    }

    fn start_joining(&mut self, through: Member) -> Member {
        let address = self.world.address(self.run(through));
        let name = format!("{PREFIX}{}", self.runs.len() + 1);
        let run = self.world.start(Start::named(&name).joining([address]));
        self.add(run)
    }

    fn crash(&mut self, member: Member) {
        self.world.crash(self.run(member));
    }

    fn restart(&mut self, member: Member) {
        self.runs[member.0] = self.world.restart(self.run(member), Restart::default());
    }

    fn pause(&mut self, member: Member, length: Duration) {
        self.world.pause(self.run(member), length);
    }

    fn block_io(&mut self, member: Member, length: Duration) {
        self.world.block_io(self.run(member), length);
    }

    fn isolate(&mut self, side: &[Member]) {
        let side: Vec<ProcessId> = side.iter().map(|&member| self.run(member)).collect();
        self.cuts.extend(self.world.partition(&side));
    }

    fn reconnect(&mut self) {
        for cut in std::mem::take(&mut self.cuts) {
            self.world.lift(cut);
        }
    }

    /// A refutation: the one change that a member makes about itself while it runs. The accusation
    /// reaches the member alone, and what spreads is its answer.
    fn tell_change(&mut self, member: Member) {
        let accuser = Member((member.0 + 1) % self.runs.len());
        self.told = self.world.accuse(self.run(accuser), self.run(member));
    }

    fn run_for(&mut self, length: Duration) {
        self.world.run_for(length);
    }

    fn now(&self) -> Instant {
        self.world.now()
    }

    fn is_change_known(&self) -> bool {
        self.told
            .is_some_and(|watch| self.world.known_after(watch).is_some())
    }

    fn is_shown_alive(&self, member: Member) -> bool {
        self.world.everyone_sees_life(self.run(member))
    }

    fn is_held_dead(&self, member: Member) -> bool {
        self.world.everyone_buries(self.run(member))
    }

    fn take_changes(&mut self) -> Vec<Change> {
        let news = self.world.take_news();
        let change = |(at, observer, event): (Instant, ProcessId, MemberEvent)| {
            Some(Change {
                at,
                observer: numbered(&self.world.process(observer).name)?,
                subject: numbered(&event.member)?,
                to: view(&event)?,
                why: why(&event),
            })
        };
        news.into_iter().filter_map(change).collect()
    }

    fn rejoins(&self) -> Vec<(Member, u64)> {
        let raised = |(place, &run): (usize, &ProcessId)| {
            let process = self.world.process(run);
            let raised = process.node.state().generation.0 - process.generation.0;
            (Member(place), raised)
        };
        self.runs.iter().enumerate().map(raised).collect()
    }

    fn sent(&self) -> Sent {
        let streams = (Direction::Sent, Transport::Stream);
        let tally = self.world.tally();
        let on_streams = self.world.total(|stats| stats.bytes.get(streams));
        Sent {
            datagrams: tally.sent,
            bytes: tally.bytes + on_streams,
        }
    }
}
