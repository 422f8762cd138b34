//! Two clusters on one network.

use rumord::protocol::{Event, JoinOutcome, RefusalReason, Rejection};
use rumord::time::Instant;
use rumord_sim::Start;

use crate::stage::{other_deaths, seconds, settled};

/// hashicorp/memberlist#241, grafana/mimir#6187: an address passed from one cluster to another,
/// and the two became one.
#[test]
fn a_recycled_address_merges_nothing() {
    for seed in 1..=5 {
        let (mut world, blue) = settled(seed, 5);
        let first = world.start(of_green("g1"));
        for n in 2..=3 {
            let join = [world.address(first)];
            world.start(of_green(&format!("g{n}")).joining(join));
        }
        world.run_for(seconds(10.0));
        let (address, since) = (world.address(blue[2]), world.now());
        world.crash(blue[2]);
        let heir = Start {
            address: Some(address),
            ..of_green("g4")
        };
        let join = [world.address(first)];
        world.start(heir.joining(join));
        world.run_for(seconds(60.0));
        assert!(world.all_alive(), "seed {seed}: {:?}", world.matrix());
        assert!(
            world.everyone_buries(blue[2]),
            "seed {seed}: {:?}",
            world.matrix()
        );
        assert_eq!(
            other_deaths(&world, since, &blue[2..3]),
            [""; 0],
            "seed {seed}"
        );
        for process in world.up() {
            let strange = process.node.records().find(|record| {
                record.name.as_str().starts_with('g') != (process.cluster == "green")
            });
            assert_eq!(strange, None, "seed {seed}: {}", process.name);
        }
        let heard = world.total(|stats| stats.rejected.get(Rejection::Cluster));
        assert!(heard > 0, "the heir is asked in the name of the dead");
    }
}

#[test]
fn a_join_to_another_cluster_is_refused() {
    let (mut world, blue) = settled(1, 3);
    let stranger = world.start(of_green("g1").joining([world.address(blue[0])]));
    world.run_for(seconds(10.0));
    let said = &world.process(stranger).events;
    let refused = Event::Join {
        address: world.address(blue[0]),
        outcome: JoinOutcome::Refused(RefusalReason::Cluster),
    };
    assert!(said.iter().any(|(_, event)| *event == refused), "{said:?}");
    assert!(!world.process(stranger).node.state().ready);
    assert_eq!(world.process(blue[0]).node.records().count(), 3);
    assert_eq!(other_deaths(&world, Instant::ORIGIN, &[]), [""; 0]);
}

fn of_green(name: &str) -> Start {
    Start {
        cluster: "green".into(),
        ..Start::named(name)
    }
}
