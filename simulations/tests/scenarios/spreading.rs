//! How fast one change is known everywhere.

use std::time::Duration;

use rumord::member::Status;
use rumord_sim::{Link, Restart, World};

use crate::stage::{quiet_cluster, seconds, summary};

/// A change must be known everywhere within this time.
const KNOWN_LATEST: Duration = Duration::from_secs(1);

fn known(world: &mut World, what: &str, holds: impl FnMut(&World) -> bool) -> Duration {
    let known = world.run_until(KNOWN_LATEST, holds);
    known.unwrap_or_else(|| panic!("{what} is not known everywhere"))
}

/// Nodes leave and return, one at a time, without loss and then with 10 %.
fn one_at_a_time(count: usize, changes: usize) {
    let (mut world, mut nodes) = quiet_cluster(1, count);
    for loss in [0.0, 0.1] {
        world.set_usual_link(Link::LAN.losing(loss));
        let (mut leaves, mut returns) = (Vec::new(), Vec::new());
        for node in nodes.iter_mut().skip(1).take(changes) {
            world.leave(*node, seconds(1.0));
            leaves.push(known(&mut world, "a leave", |world| {
                world.everyone_sees(*node, Status::Left)
            }));
            world.run_for(seconds(1.5));
            world.crash(*node);
            *node = world.restart(*node, Restart::default());
            returns.push(known(&mut world, "a return", |world| {
                world.everyone_sees_life(*node)
            }));
            world.run_for(seconds(1.5));
        }
        println!("leave,   N = {count}, loss {loss}: {}", summary(leaves));
        println!("restart, N = {count}, loss {loss}: {}", summary(returns));
    }
}

#[test]
fn one_change_among_a_hundred_is_known_in_milliseconds() {
    one_at_a_time(100, 60);
}

#[test]
fn one_change_among_a_thousand_is_known_in_milliseconds() {
    one_at_a_time(1000, 8);
}
