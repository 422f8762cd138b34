//! Our own core as a contender: the [`World`] of all other commands.

use std::collections::BTreeMap;
use std::time::Duration;

use rumord::member::NodeName;
use rumord::protocol::{Config, Direction, EventKind, Transport};
use rumord::time::Instant;

use super::contender::{Contender, Member, Sent, Setting, Verdict};
use crate::process::ProcessId;
use crate::rules::RuleId;
use crate::world::{Checking, Keeping, MemberNews, Options, Restart, Start, WatchId, World};

/// rumord members in simulated time.
pub struct RumordWorld {
    world: World,
    /// The present run of each member.
    runs: Vec<ProcessId>,
    cuts: Vec<RuleId>,
    told: Option<WatchId>,
}

impl RumordWorld {
    fn run(&self, member: Member) -> ProcessId {
        self.runs[member.0]
    }

    fn add(&mut self, run: ProcessId) -> Member {
        self.runs.push(run);
        Member(self.runs.len() - 1)
    }

    /// Whose names are whose.
    fn names(&self) -> BTreeMap<&NodeName, Member> {
        let name = |(place, &run): (usize, &ProcessId)| {
            let name = &self.world.process(run).name;
            (name, Member(place))
        };
        self.runs.iter().enumerate().map(name).collect()
    }
}

impl Contender for RumordWorld {
    fn empty(setting: &Setting) -> Self {
        let keeping = match setting.keeping {
            true => Keeping::Events,
            false => Keeping::Nothing,
        };
        RumordWorld {
            world: World::new(Options {
                config: Config::lan(),
                link: setting.link,
                keeping,
                checking: Checking::Nothing,
                ..Options::seeded(setting.seed)
            }),
            runs: Vec::new(),
            cuts: Vec::new(),
            told: None,
        }
    }

    fn start_full(&mut self, count: usize) -> Vec<Member> {
        let runs = self.world.start_full(count);
        runs.into_iter().map(|run| self.add(run)).collect()
    }

    fn start_joining(&mut self, through: Member) -> Member {
        let address = self.world.address(self.run(through));
        let name = format!("n{}", self.runs.len() + 1);
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

    fn verdicts(&self) -> Vec<Verdict> {
        let names = self.names();
        let verdict = |news: MemberNews<'_>| {
            Some(Verdict {
                at: news.at,
                observer: *names.get(&self.world.process(news.observer).name)?,
                subject: *names.get(&news.event.member)?,
            })
        };
        let dead = |news: &MemberNews<'_>| news.event.kind == EventKind::MemberDead;
        self.world.news().filter(dead).filter_map(verdict).collect()
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
