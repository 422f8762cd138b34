//! rumord keeps a table of the members of a cluster on every host, by gossip.
//!
//! This page is the architecture document. The README says how to run it.
//!
//! # What it is
//!
//! Every node pings one other member per period (SWIM, Das, Gupta and Motivala, DSN 2002). A ping
//! that is not answered opens a *case*: relays are asked to ping the silent member too, and each
//! that says "I reach you, and it does not answer me" adds evidence, measured as in an accrual
//! detector (Hayashibara et al., SRDS 2004): phi = -log10 P(all this silence | it is alive). A
//! member is suspected when loss has become improbable, told so, and declared dead when fresh
//! evidence says the same again after the pause tolerance. It refutes by raising its incarnation.
//!
//! A change of the table is pushed at once in a few datagrams and rides on pings and acks. Every
//! ping and ack carries a fingerprint of the sender's table; where two stay different, a salted
//! digest finds out in which records, and those are exchanged. Merging is idempotent and
//! commutative, so nothing depends on the order, number or path of messages.
//!
//! # Code map
//!
//! Imports run only to the right:
//!
//! ```text
//!  main -> cli, daemon -> node -> protocol -> wire -> member -> time
//!  simulations -----------------> protocol, wire, member, time
//! ```
//!
//! | module | holds | does not know |
//! |---|---|---|
//! | [`time`] | an integer `Instant` | how to read a clock |
//! | [`member`] | names, generations, statuses, records; the one order between claims | IO |
//! | [`wire`] | frames and messages, bounded encoding | sockets |
//! | [`protocol`] | the state machine: one input in, messages and events out | sockets, files |
//! | `node` | the tokio driver: sockets, snapshots, the event log; embedding | HTTP, files |
//! | `daemon` | settings, the store on disk, HTTP, telemetry, signals | protocol internals |
//! | `cli` | the commands, clients of the HTTP interface | protocol internals |
//!
//! Inside [`protocol`] a hub holds control flow and leaves hold arithmetic; a leaf knows no other
//! leaf. [`protocol::Node`] states the core's contract, the wire module's messages are the protocol
//! document.
//!
//! # Invariants, most of them absences
//!
//! 1. Nothing under `time`, `member`, `wire` and `protocol` reads a clock, a socket, a file, an
//!    environment variable or global randomness, or iterates in hash order.
//! 2. `protocol::Node::handle` is the only function that changes a core, and cannot fail: hostile
//!    bytes become a counted rejection and change nothing.
//! 3. Only `wire` knows the codec, only `daemon::telemetry` knows the metrics library.
//! 4. Every queue, list and loop has a named limit.
//! 5. Readers get an immutable snapshot and never wait for the protocol.
//! 6. A generation is durable before the first packet that carries it.
//! 7. There is no `unsafe`.
//!
//! Tests in `tests/it/tidy` check 1, 3 and the direction of imports.
//!
//! # Features
//!
//! | feature | adds |
//! |---|---|
//! | none | the core: `time`, `member`, `wire`, `protocol`; no runtime in its tree |
//! | `runtime` | `node`: run a member inside a tokio program |
//! | `daemon` (default) | settings, HTTP, metrics, the `rumord` binary |

#![deny(missing_docs)]

#[cfg(feature = "daemon")]
pub mod cli;
#[cfg(feature = "daemon")]
pub mod daemon;
pub mod member;
#[cfg(feature = "runtime")]
pub mod node;
pub mod protocol;
pub mod time;
pub mod wire;
