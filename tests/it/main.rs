//! Integration tests: the public API and the built binary, never internals.

#[path = "../support/agent.rs"]
#[allow(
    dead_code,
    reason = "shared with the benchmark, which uses other parts"
)]
mod agent;
mod agents;
mod config_files;
mod conflicts;
mod core;
#[path = "../../examples/debit.rs"]
#[allow(dead_code, reason = "an example, which is a program")]
mod debit;
mod debiting;
mod describing;
mod enduring;
mod eventing;
mod explaining;
mod forgetting;
mod handling;
mod hostile;
mod joining;
mod killing;
mod nodes;
mod once;
mod program;
mod serving;
mod slow_peers;
mod stores;
mod tidy;
mod watching;
