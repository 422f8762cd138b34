//! What may go wrong in a swarm: each fault with everything it needs, drawn beforehand.

use std::collections::BTreeSet;
use std::fmt;
use std::time::Duration;

use crate::process::Lateness;
use crate::rules::Carried;
use crate::world::Restart;

/// A node's place in the cluster. Its processes come and go; its name stays.
pub type Slot = usize;

/// One fault. Its slots are places, so that leaving a fault out changes no other.
#[derive(Clone, PartialEq, Debug)]
pub enum Fault {
    /// The process ends without a word.
    Crash(Slot),
    /// The process is started again; it ends first if it runs.
    Restart(Slot, Restart),
    /// The node announces that it leaves, and ends.
    Leave(Slot),
    /// The process stands still.
    Pause(Slot, Duration),
    /// The process stands still, and what comes is lost.
    Outage(Slot, Duration),
    /// Timers run, but nothing goes in or out.
    BlockIo(Slot, Duration),
    /// Short outages, one a second.
    DeafSlots(Slot, u32),
    /// The process gets too little of the processor.
    Starve(Slot, Duration),
    /// The process's timers are late.
    SlowTimers(Slot, Lateness, Duration),
    /// The wall clock of the node's host is set so many seconds forth, or back.
    StepClock(Slot, i64),
    /// All nodes are restarted on their hosts, one after another, with this time between two.
    Deploy(Duration, Restart),
    /// Nothing passes from the first to the second.
    OneWayCut(Slot, Slot, Carried, Duration),
    /// Nothing passes between the two.
    Cut(Slot, Slot, Carried, Duration),
    /// Nothing passes between these and all others.
    Partition(BTreeSet<Slot>, Duration),
    /// The node receives nothing.
    Deafen(Slot, Carried, Duration),
    /// Nothing that the node sends arrives.
    Mute(Slot, Carried, Duration),
    /// Datagrams from the first to the second wait, and come all at once.
    Hold(Slot, Slot, Duration),
    /// This share of the node's packets is lost, both ways.
    Lossy(Slot, f64, Duration),
    /// A second process with the node's name tries to join.
    Twin(Slot, Duration),
    /// All nodes ask one to admit them, at the same instant.
    Crowd(Slot),
    /// An operator has the first node forget the second.
    Forget(Slot, Slot),
}

impl Fault {
    /// The words for all faults, for counting.
    pub const WORDS: [&'static str; 21] = [
        "crash",
        "restart",
        "leave",
        "pause",
        "outage",
        "block-io",
        "deaf-slots",
        "starve",
        "slow-timers",
        "clock-step",
        "deploy",
        "one-way-cut",
        "cut",
        "partition",
        "deafen",
        "mute",
        "hold",
        "lossy",
        "twin",
        "crowd",
        "forget",
    ];

    /// The word for it.
    #[must_use]
    pub fn word(&self) -> &'static str {
        let place = match self {
            Fault::Crash(..) => 0,
            Fault::Restart(..) => 1,
            Fault::Leave(..) => 2,
            Fault::Pause(..) => 3,
            Fault::Outage(..) => 4,
            Fault::BlockIo(..) => 5,
            Fault::DeafSlots(..) => 6,
            Fault::Starve(..) => 7,
            Fault::SlowTimers(..) => 8,
            Fault::StepClock(..) => 9,
            Fault::Deploy(..) => 10,
            Fault::OneWayCut(..) => 11,
            Fault::Cut(..) => 12,
            Fault::Partition(..) => 13,
            Fault::Deafen(..) => 14,
            Fault::Mute(..) => 15,
            Fault::Hold(..) => 16,
            Fault::Lossy(..) => 17,
            Fault::Twin(..) => 18,
            Fault::Crowd(..) => 19,
            Fault::Forget(..) => 20,
        };
        Self::WORDS[place]
    }
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.word())?;
        match self {
            Fault::Crash(slot) | Fault::Leave(slot) | Fault::Crowd(slot) => {
                write!(f, " {}", name(*slot))
            }
            Fault::Restart(slot, way) => write!(f, " {} {way}", name(*slot)),
            Fault::Pause(slot, length)
            | Fault::Outage(slot, length)
            | Fault::BlockIo(slot, length)
            | Fault::Starve(slot, length)
            | Fault::Twin(slot, length) => write!(f, " {} {length:?}", name(*slot)),
            Fault::DeafSlots(slot, times) => write!(f, " {} {times} times", name(*slot)),
            Fault::SlowTimers(slot, lateness, length) => {
                write!(f, " {} {lateness} {length:?}", name(*slot))
            }
            Fault::StepClock(slot, step) => write!(f, " {} {step:+} s", name(*slot)),
            Fault::Deploy(gap, way) => write!(f, " all, one per {gap:?}, {way}"),
            Fault::OneWayCut(from, to, carried, length) => {
                let carried = word_of(*carried);
                write!(f, " {} to {} {carried} {length:?}", name(*from), name(*to))
            }
            Fault::Cut(one, other, carried, length) => {
                let carried = word_of(*carried);
                write!(f, " {} {} {carried} {length:?}", name(*one), name(*other))
            }
            Fault::Partition(side, length) => {
                let side: Vec<_> = side.iter().map(|&slot| name(slot)).collect();
                write!(f, " {} {length:?}", side.join("+"))
            }
            Fault::Deafen(slot, carried, length) | Fault::Mute(slot, carried, length) => {
                write!(f, " {} {} {length:?}", name(*slot), word_of(*carried))
            }
            Fault::Hold(from, to, length) => {
                write!(f, " {} to {} {length:?}", name(*from), name(*to))
            }
            Fault::Forget(asked, whom) => {
                write!(f, " by {} of {}", name(*asked), name(*whom))
            }
            Fault::Lossy(slot, share, length) => {
                write!(f, " {} {:.0} % {length:?}", name(*slot), share * 100.0)
            }
        }
    }
}

/// The member's name at a slot.
#[must_use]
pub fn name(slot: Slot) -> String {
    format!("n{}", slot + 1)
}

fn word_of(carried: Carried) -> &'static str {
    match carried {
        Carried::Datagrams => "datagrams",
        Carried::Streams => "streams",
        Carried::Everything => "everything",
    }
}
