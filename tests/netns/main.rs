//! Real agents on hosts of their own: every test builds a network of Linux network namespaces, with
//! addresses, filters and name servers inside them only, and removes it whether it passes or fails.
//!
//! Runs as root, or else inside a user namespace of its own. Needs `ip` (Debian package iproute2)
//! and `nft` (nftables), and says so when one is missing. A runner of its own, because the tests
//! mostly wait: they run at the same time, whatever the number of processors.

#![cfg(target_os = "linux")]

mod addresses;
#[path = "../support/agent.rs"]
#[allow(dead_code, reason = "shared with other tests, which use other parts")]
mod agent;
mod cluster;
mod cuts;
mod dir;
mod host;
mod lab;
mod losses;
mod name_server;
mod names;
mod orders;
mod reachability;
mod restarts;
mod runner;
mod stalls;
mod tools;

use runner::Case;

/// Lists tests by their paths.
macro_rules! cases {
    ($($module:ident :: $test:ident),* $(,)?) => {
        &[$(Case {
            name: concat!(stringify!($module), "::", stringify!($test)),
            run: $module::$test,
        }),*]
    };
}

/// The longest first, so that the others run beside them.
const CASES: &[Case] = cases![
    cuts::halves_that_held_each_other_dead_for_120_s_heal,
    reachability::where_only_streams_pass_ten_live,
    reachability::where_only_streams_pass_three_live,
    stalls::a_third_of_all_packets_lost_kills_nobody_and_hides_no_death,
    stalls::pauses_of_two_and_of_four_and_a_half_seconds_kill_nobody,
    losses::of_a_deaf_node_only_that_node_is_seen_dead,
    losses::one_deaf_direction_between_two_kills_nobody,
    losses::blocked_streams_show_and_kill_nobody,
    reachability::blocked_streams_are_named,
    reachability::a_smaller_mtu_is_named,
    reachability::blocked_datagrams_are_named_and_mended,
    reachability::one_way_is_told_from_both,
    cuts::halves_that_held_each_other_dead_for_30_s_heal,
    restarts::a_restart_on_a_new_address_is_one_restart,
    restarts::a_full_stop_with_data_ends_whole,
    restarts::a_full_stop_without_data_ends_whole,
    restarts::a_full_stop_with_data_and_new_addresses_ends_whole,
    restarts::a_full_stop_without_data_and_new_addresses_ends_whole,
    names::stale_names_heal_without_a_restart,
    names::a_service_name_carries_the_ports,
    names::one_dead_address_of_a_name_hides_no_other,
    names::nodes_of_ipv6_take_no_harm_from_ipv4_records,
    addresses::an_advertised_port_may_differ_from_the_bound_one,
    orders::lists_with_oneself_make_one_cluster_in_every_order,
    addresses::a_wildcard_is_never_advertised,
    addresses::any_only_address_is_used,
    addresses::without_any_address_the_error_names_the_option,
];

fn main() {
    tools::require();
    std::process::exit(runner::run(CASES));
}
