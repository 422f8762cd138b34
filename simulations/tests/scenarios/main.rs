//! Scenarios: what a cluster of real cores does in virtual time.
//!
//! Every test is a function of a seed and runs for several. A figure that a test prints is virtual
//! time; see it with `cargo test -p rumord-sim --test scenarios -- --nocapture`.

mod addresses;
mod agreeing;
mod clocks;
mod clusters;
mod commands;
mod comparing;
mod conflicts;
mod crashing;
mod describing;
mod event_stories;
mod events;
mod evicting;
mod exchanging;
mod explaining;
mod forgetting;
mod healing;
mod hostile;
mod hosts;
mod identity;
mod joining;
mod leaving;
mod links;
mod load;
mod loss;
mod maintaining;
mod manifest;
mod partitions;
mod pausing;
mod pushing;
mod reaching;
mod remembering;
mod repeating;
mod restarting;
mod returning;
mod spreading;
mod stage;
mod swarm;
mod sweeping;
mod tombstones;
