//! Networks that lose packets.

use std::time::Duration;

use rumord::time::Instant;
use rumord_sim::{Bursts, Latency, Link, Loss, Options, World};

use crate::stage::{deaths, seconds};

fn survive(what: &str, link: Link, count: usize, seeds: u64, length: f64) {
    for seed in 1..=seeds {
        let mut world = World::new(Options {
            link,
            ..Options::seeded(seed)
        });
        world.start_cluster(count);
        world.run_for(seconds(length));
        assert_eq!(
            deaths(&world, Instant::ORIGIN),
            [""; 0],
            "{what}, seed {seed}"
        );
        let settled = world.run_until(seconds(30.0), World::all_alive);
        assert!(
            settled.is_some(),
            "{what}, seed {seed}: {:?}",
            world.matrix()
        );
    }
}

#[test]
fn independent_loss_kills_nobody() {
    for count in [2, 3, 5, 20] {
        survive("10 %", Link::LAN.losing(0.1), count, 3, 300.0);
        survive("30 %", Link::LAN.losing(0.3), count, 3, 300.0);
    }
}

#[test]
fn bursts_of_loss_kill_nobody() {
    let link = Link {
        loss: Loss::Bursty(Bursts {
            share: 0.1,
            bad_mean: Duration::from_secs(1),
        }),
        ..Link::LAN
    };
    survive("bursts", link, 20, 3, 300.0);
    survive("bursts", link, 8, 3, 300.0);
}

/// A network that does everything wrong but damage.
#[test]
fn duplicates_and_overtaking_kill_nobody() {
    let link = Link {
        duplicated: 0.2,
        reordered: 0.3,
        reordered_by: Duration::from_millis(300),
        ..Link::LAN.losing(0.1)
    };
    survive("disorder", link, 10, 3, 300.0);
}

/// Round trips of 80 ms under the parameters of a LAN.
#[test]
fn slow_links_kill_nobody() {
    let link = Link {
        latency: Latency::WAN,
        ..Link::LAN
    };
    survive("slow", link, 10, 3, 300.0);
    survive("slow and lossy", link.losing(0.1), 10, 3, 300.0);
}
