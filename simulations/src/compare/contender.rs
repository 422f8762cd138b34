//! What a measure asks of a protocol, whichever it is.

use std::time::Duration;

use rumord::time::Instant;

use crate::link::Link;

/// Names a member: the how-manieth that was started. It keeps its number over restarts.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct Member(pub usize);

/// The world that all contenders get: the same for the same figures.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Setting {
    /// Members for which the protocol's parameters are chosen, where it wants to know.
    pub nodes: usize,
    /// Every link.
    pub link: Link,
    /// Everything random follows from it.
    pub seed: u64,
    /// Whether verdicts are kept; a measure of speed has no use for them.
    pub keeping: bool,
}

/// An observer began to hold a subject for dead.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Verdict {
    /// When.
    pub at: Instant,
    /// Whose table says so.
    pub observer: Member,
    /// About whom.
    pub subject: Member,
}

/// What all members together have sent.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Sent {
    /// Datagrams.
    pub datagrams: u64,
    /// Payload bytes, those of streams included.
    pub bytes: u64,
}

/// A protocol in its own world of simulated time.
pub trait Contender {
    /// An empty world.
    fn empty(setting: &Setting) -> Self
    where
        Self: Sized;

    /// Starts `count` members that know each other, as a cluster that came together long ago.
    fn start_full(&mut self, count: usize) -> Vec<Member>;

    /// Starts a member that joins through another.
    fn start_joining(&mut self, through: Member) -> Member;

    /// A member ends at once, without a word.
    fn crash(&mut self, member: Member);

    /// Starts a crashed member again at its address; it joins through others that run.
    fn restart(&mut self, member: Member);

    /// A member handles nothing for `length`; then what has come, then its timers.
    fn pause(&mut self, member: Member, length: Duration);

    /// Nothing passes between `side` and everybody else from now on.
    fn isolate(&mut self, side: &[Member]);

    /// What [`isolate`](Contender::isolate) cut is whole again.
    fn reconnect(&mut self);

    /// A member changes something about itself that all are to know.
    fn tell_change(&mut self, member: Member);

    /// Time passes.
    fn run_for(&mut self, length: Duration);

    /// The world's time.
    fn now(&self) -> Instant;

    /// Whether all know what the last [`tell_change`](Contender::tell_change) told.
    fn is_change_known(&self) -> bool;

    /// Whether all others that run show this member as alive in its present life.
    fn is_shown_alive(&self, member: Member) -> bool;

    /// Whether no other that runs shows this member as alive.
    fn is_held_dead(&self, member: Member) -> bool;

    /// Every verdict so far, in no order that matters.
    fn verdicts(&self) -> Vec<Verdict>;

    /// Members that were forced to take a new identity though they never ended, and how often.
    fn rejoins(&self) -> Vec<(Member, u64)>;

    /// What was sent so far.
    fn sent(&self) -> Sent;
}
