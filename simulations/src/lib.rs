//! rumord's protocol core in virtual time.
//!
//! A [`World`] holds real cores, the same code and the same bytes as in the daemon, and everything
//! around them that the daemon has from the operating system: a clock, a network, processes that
//! crash, stand still and come back. All of it follows from one seed, so that every run can be
//! repeated byte for byte; the trace shows it.
//!
//! | module | subject |
//! |---|---|
//! | [`queue`] | what happens next: one queue, ordered by (instant, class, sequence) |
//! | [`forks`] | one generator per consumer, all from one seed |
//! | [`link`] | latency, loss, duplication, reordering, corruption of one direction of a link |
//! | [`rules`] | cuts, partitions, lossy hosts, held packets |
//! | [`network`] | what becomes of each datagram, and the books about it |
//! | [`streams`] | connections: refused, cut, stalled, answered |
//! | [`process`] | one run of a node, and what may be wrong with it |
//! | [`world`] | the loop that hands everything to the cores, faults, questions |
//! | [`store`] | what a process keeps of user events, and what must be true of it |
//! | [`checker`] | invariants that hold after every event |
//! | [`trace`] | one line per event |
//! | [`swarm`] | random faults against random clusters |
//! | [`scenarios`] | stories with figures and bounds |
//! | [`converge`] | how long one change takes until all know it |
//! | [`events`] | how long an event takes until its sender knows that all have it |
//! | [`detect`] | how long a crash takes to be found, and mistakes |
//! | [`interval`] | slow members again and again, as Lifeguard was evaluated |
//! | [`compare`] | the same measures on other protocols, in the same world |
//! | [`scale`] | the memory and time that a large cluster takes |
//! | [`pair`] | what an exchange of two tables costs, to the byte |
//! | [`fit`], [`svg`] | figures about figures, and pictures of them |
//! | [`commands`] | all of it from the command line, in one process or on many machines |
//! | [`parallel`] | independent runs on several threads |
//!
//! ```
//! use std::time::Duration;
//! use rumord_sim::{Options, World};
//!
//! let mut world = World::new(Options::seeded(7));
//! let nodes = world.start_cluster(5);
//! world.crash(nodes[2]);
//! let found = world.run_until(Duration::from_secs(20), |world| world.everyone_buries(nodes[2]));
//! assert!(found.is_some());
//! ```

pub mod checker;
pub mod commands;
pub mod compare;
pub mod converge;
pub mod detect;
pub mod events;
pub mod fit;
pub mod forks;
pub mod interval;
pub mod link;
pub mod network;
pub mod pair;
pub mod parallel;
pub mod process;
pub mod queue;
pub mod rules;
pub mod scale;
pub mod scenarios;
pub mod store;
pub mod streams;
pub mod svg;
pub mod swarm;
pub mod trace;
pub mod world;

pub use link::{Bursts, Latency, Link, Loss};
pub use process::{Condition, Lateness, ProcessId};
pub use rules::{Carried, Effect, Hosts, Rule, RuleId};
pub use world::{Options, Restart, Start, World};
