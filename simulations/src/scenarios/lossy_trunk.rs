//! Two sites, and much loss on the way from one to the other only.

use super::Scenario;
use super::stage::{Stage, seconds};
use crate::link::Link;
use crate::process::ProcessId;
use crate::rules::Hosts;
use crate::world::World;

/// Members of each site.
const SITE: usize = 30;
/// What is lost between the sites.
const LOSSES: [f64; 2] = [0.3, 0.6];

pub(super) const SCENARIO: Scenario = Scenario {
    name: "lossy-trunk",
    story: "two sites of 30 lose 30 %, then 60 % of what passes between them: nobody dies",
    play,
};

fn play(stage: &mut Stage) -> Result<(), String> {
    let nodes = stage.settled(2 * SITE);
    let (here, there) = nodes.split_at(SITE);
    let since = stage.world.now();
    for loss in LOSSES {
        let link = Link::LAN.losing(loss);
        for (from, to) in [(here, there), (there, here)] {
            let [from, to] = [from, to].map(|site| hosts(&stage.world, site));
            stage.world.set_link(from, to, link);
        }
        stage.world.run_for(seconds(300));
        stage.tell(&format!("{} % for 300 s: holds", loss * 100.0), "yes");
        stage.nobody_else_dies(since, &[])?;
    }
    stage.within("all alive in the end", seconds(30), World::all_alive)?;
    Ok(())
}

fn hosts(world: &World, site: &[ProcessId]) -> Hosts {
    site.iter().map(|&node| world.address(node)).collect()
}
