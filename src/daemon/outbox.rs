//! Programs and HTTP targets that are told of events.
//!
//! A call is written in the transaction that logs its event, so neither is without the other. One
//! task for each target makes its calls, one after the other, each at least once: a call is struck
//! off after it has succeeded, so one that succeeded just before a crash is made again. A call that
//! fails is tried again after a growing pause while later ones go on; after its last attempt it is
//! parked, where an operator sees it and can have it made again. No target waits for another, and
//! the protocol waits for none.

mod call;
mod program;
mod runner;
mod target;
mod webhook;

pub use call::{Call, CallView, Calls, NextCall, Redriven, Settled};
pub use runner::start;
pub use target::{
    ATTEMPTS_DEFAULT, ATTEMPTS_MAX, Action, Filter, Subject, TIMEOUT_DEFAULT, TIMEOUT_MAX, Target,
};
