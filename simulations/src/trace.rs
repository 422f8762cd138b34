//! The trace: one line per event, the same bytes for the same seed.
//!
//! ```text
//! 12.003417 n3/p2 hear ping 137 10.0.0.1:7480
//! |         |     |    |
//! |         |     |    what it is about, see below
//! |         |     what happened
//! |         name and process; `-` for the network
//! seconds since the run began
//! ```
//!
//! | verb | then |
//! |---|---|
//! | `start` | address, generation, node id |
//! | `stop` `pause` `outage` `block` `resume` `leave` `join` | nothing, or the addresses |
//! | `starve` `timers` `clock` | until when; how late they are from now on; the step in seconds |
//! | `lay` `lift` | a rule of the network |
//! | `send` `hear` | kind of message, bytes, the other's address |
//! | `lose` | reason, receiver's address |
//! | `connect` `request` `answer` `refused` `timeout` | connection, frames, the other's address |
//! | `wake` | how late the deadline was handled, in seconds |
//! | `event` | what the node said |
//! | `violation` | the invariant that does not hold |

use std::fmt::{self, Write};

use rumord::time::Instant;

use crate::process::Process;

/// Whether a run writes a trace. A long one takes much memory.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Tracing {
    /// It does.
    On,
    /// It does not.
    Off,
}

/// The lines of a run.
#[derive(Debug)]
pub struct Trace {
    tracing: Tracing,
    text: String,
}

impl Trace {
    /// An empty trace.
    #[must_use]
    pub fn new(tracing: Tracing) -> Self {
        Trace {
            tracing,
            text: String::new(),
        }
    }

    /// All lines so far.
    #[must_use]
    pub fn text(&self) -> &str {
        &self.text
    }

    /// Writes one line about `process`, or about the network.
    pub fn note(
        &mut self,
        at: Instant,
        process: Option<&Process>,
        verb: &str,
        rest: fmt::Arguments<'_>,
    ) {
        if self.tracing == Tracing::Off {
            return;
        }
        let micros = at.as_nanos() / 1000;
        let (seconds, micros) = (micros / 1_000_000, micros % 1_000_000);
        // Writing to a string cannot fail.
        let _ = match process {
            Some(Process { name, id, .. }) => {
                writeln!(self.text, "{seconds}.{micros:06} {name}/{id} {verb} {rest}")
            }
            None => writeln!(self.text, "{seconds}.{micros:06} - {verb} {rest}"),
        };
    }
}
