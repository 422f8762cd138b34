//! Named scenarios: one story each, told with figures, and with a bound on every figure.

mod blackout;
mod blocked_io;
mod churn;
mod clock_step;
mod clock_step_in_case;
mod cold_start;
mod convergence;
mod cpu_starvation;
mod crash;
mod dead_origin;
mod deaf;
mod delivered;
mod event_across_partition;
mod event_flood;
mod events_at_loss;
mod flapping_links;
mod halves;
mod join_storm;
mod joins_at_loss;
mod large;
mod large_event;
mod late_timers;
mod long_pauses;
mod loss_jump;
mod lossy_node;
mod lossy_nodes;
mod lossy_trunk;
mod lost_acks;
mod mass_crash;
mod mass_restart;
mod missed_update;
mod one_way;
mod one_way_cuts;
mod partition;
mod pause;
mod quarter_crash;
mod receiver_restarts;
mod recycled_address;
mod refutation;
mod replayed_packets;
mod restart_of_all;
mod restart_when_accused;
mod rolling_deploy;
mod sender_restarts;
mod slow_node;
mod stage;
mod stale_messages;
mod steady_changes;
mod steady_joins;
mod two_clusters;
mod unreachable_by_half;

pub use stage::Stage;

/// A story.
#[derive(Clone, Copy, Debug)]
pub struct Scenario {
    /// How it is called.
    pub name: &'static str,
    /// What happens, in a sentence.
    pub story: &'static str,
    /// Plays it; the error says which bound was broken.
    pub play: fn(&mut Stage) -> Result<(), String>,
}

/// All of them.
pub const SCENARIOS: [Scenario; 52] = [
    crash::SCENARIO,
    mass_crash::SCENARIO,
    refutation::SCENARIO,
    partition::SCENARIO,
    one_way::SCENARIO,
    pause::SCENARIO,
    lossy_node::SCENARIO,
    stale_messages::SCENARIO,
    mass_restart::SCENARIO,
    join_storm::SCENARIO,
    recycled_address::SCENARIO,
    churn::SCENARIO,
    convergence::SCENARIO,
    slow_node::SCENARIO,
    cpu_starvation::SCENARIO,
    late_timers::SCENARIO,
    deaf::DEAF,
    deaf::MUTE,
    deaf::CUT_OFF,
    blocked_io::SCENARIO,
    clock_step::SCENARIO,
    two_clusters::SCENARIO,
    rolling_deploy::SCENARIO,
    restart_of_all::SCENARIO,
    cold_start::SCENARIO,
    steady_joins::SCENARIO,
    missed_update::SCENARIO,
    steady_changes::SCENARIO,
    lossy_nodes::BOTH,
    lossy_nodes::INCOMING,
    lossy_nodes::OUTGOING,
    joins_at_loss::SCENARIO,
    quarter_crash::SCENARIO,
    halves::SCENARIO,
    one_way_cuts::SCENARIO,
    unreachable_by_half::SCENARIO,
    loss_jump::SCENARIO,
    blackout::SCENARIO,
    long_pauses::SCENARIO,
    restart_when_accused::SCENARIO,
    clock_step_in_case::SCENARIO,
    flapping_links::SCENARIO,
    lossy_trunk::SCENARIO,
    events_at_loss::SCENARIO,
    event_across_partition::SCENARIO,
    sender_restarts::SCENARIO,
    receiver_restarts::SCENARIO,
    lost_acks::SCENARIO,
    large_event::SCENARIO,
    replayed_packets::SCENARIO,
    dead_origin::SCENARIO,
    event_flood::SCENARIO,
];
