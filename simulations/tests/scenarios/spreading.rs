//! How fast one change is known everywhere.

use std::time::Duration;

use rumord::member::Status;
use rumord_sim::world::Keeping;
use rumord_sim::{Link, Options, ProcessId, Restart, World};

use crate::stage::{seconds, summary};

/// A change must be known everywhere within this time.
const KNOWN_LATEST: Duration = Duration::from_secs(1);

fn quiet_cluster(seed: u64, count: usize, loss: f64) -> (World, Vec<ProcessId>) {
    let mut world = World::new(Options {
        keeping: Keeping::Nothing,
        ..Options::seeded(seed)
    });
    let nodes = world.start_cluster(count);
    world.set_usual_link(Link::LAN.losing(loss));
    world.run_for(seconds(20.0));
    (world, nodes)
}

fn known(world: &mut World, what: &str, holds: impl FnMut(&World) -> bool) -> Duration {
    let known = world.run_until(KNOWN_LATEST, holds);
    known.unwrap_or_else(|| panic!("{what} is not known everywhere"))
}

#[test]
fn one_change_is_known_everywhere_in_milliseconds() {
    for (count, changes) in [(100, 60), (1000, 20)] {
        for loss in [0.0, 0.1] {
            let (mut world, nodes) = quiet_cluster(1, count, loss);
            let (mut leaves, mut returns) = (Vec::new(), Vec::new());
            for &node in nodes.iter().skip(1).take(changes) {
                world.leave(node, seconds(1.0));
                leaves.push(known(&mut world, "a leave", |world| {
                    world.everyone_sees(node, Status::Left)
                }));
                world.run_for(seconds(1.5));
                world.crash(node);
                let back = world.restart(node, Restart::default());
                returns.push(known(&mut world, "a return", |world| {
                    world.everyone_sees_life(back)
                }));
                world.run_for(seconds(1.5));
            }
            println!("leave,   N = {count}, loss {loss}: {}", summary(leaves));
            println!("restart, N = {count}, loss {loss}: {}", summary(returns));
        }
    }
}
