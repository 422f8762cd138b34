//! What a measure asks of a protocol, whichever it is.

use std::time::Duration;

use rumord::protocol::Config;
use rumord::time::Instant;

use crate::link::Link;

/// What a network the protocol's own parameters are made for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Profile {
    /// One machine.
    Local,
    /// One data centre.
    Lan,
    /// Between sites.
    Wan,
}

impl Profile {
    /// All, as written on a command line.
    pub const WORDS: [&'static str; 3] = ["local", "lan", "wan"];

    /// The word of this profile.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        Self::WORDS[self as usize]
    }

    /// The profile of a word.
    #[must_use]
    pub fn from_word(word: &str) -> Option<Self> {
        let all = [Profile::Local, Profile::Lan, Profile::Wan];
        all.into_iter().find(|profile| profile.as_str() == word)
    }

    /// A flawless link of such a network.
    #[must_use]
    pub fn link(self) -> Link {
        match self {
            Profile::Local | Profile::Lan => Link::LAN,
            Profile::Wan => Link::WAN,
        }
    }

    /// Our own core's parameters for it.
    #[must_use]
    pub fn config(self) -> Config {
        match self {
            Profile::Local => Config::local(),
            Profile::Lan => Config::lan(),
            Profile::Wan => Config::wan(),
        }
    }
}

/// Names a member: the how-manieth that was started. It keeps its number over restarts.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct Member(pub usize);

/// The world that all contenders get: the same for the same figures.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Setting {
    /// Members for which the protocol's parameters are chosen, where it wants to know.
    pub nodes: usize,
    /// The network that its parameters are made for.
    pub profile: Profile,
    /// Every link.
    pub link: Link,
    /// Everything random follows from it.
    pub seed: u64,
    /// Whether changes are kept; a measure of speed has no use for them.
    pub keeping: bool,
    /// Whether our own core's invariants are looked at after every event.
    pub checked: bool,
}

impl Setting {
    /// Members that were started for one data centre, on its links.
    #[must_use]
    pub fn lan(nodes: usize, loss: f64, seed: u64) -> Self {
        Setting {
            nodes,
            profile: Profile::Lan,
            link: Link::LAN.losing(loss),
            seed,
            keeping: true,
            checked: false,
        }
    }
}

/// What an observer holds of a subject.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum View {
    /// It runs.
    Alive,
    /// It may have ended.
    Suspect,
    /// It has ended.
    Dead,
}

/// An observer's view of a subject has changed.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Change {
    /// When.
    pub at: Instant,
    /// Whose table says so.
    pub observer: Member,
    /// About whom.
    pub subject: Member,
    /// What it says now.
    pub to: View,
    /// For an accusation by the observer's own evidence, why; `None` when others told it so.
    pub why: Option<String>,
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

    /// A member's timers run, but for `length` nothing goes in or out; then it sends what waits,
    /// and handles what has come.
    fn block_io(&mut self, member: Member, length: Duration);

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

    /// All changes of views since this was last asked, in the order of time.
    fn take_changes(&mut self) -> Vec<Change>;

    /// Members that were forced to take a new identity though they never ended, and how often.
    fn rejoins(&self) -> Vec<(Member, u64)>;

    /// What was sent so far.
    fn sent(&self) -> Sent;
}
