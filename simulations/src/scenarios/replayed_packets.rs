//! Somebody sends old datagrams again.

use rumord::member::Delivery;
use rumord::wire::{self, ClusterTag, Events, List, Message, Sender, ToldEvent, ToldWhat};

use super::Scenario;
use super::delivered::{each_has, send, within};
use super::stage::{Stage, seconds};
use crate::process::ProcessId;
use crate::world::Restart;

pub(super) const SCENARIO: Scenario = Scenario {
    name: "replayed-packets",
    story: "old datagrams with events come again, also after a restart: nothing shows twice",
    play,
};

fn play(stage: &mut Stage) -> Result<(), String> {
    let nodes = stage.settled(5);
    let last = send(stage, nodes[0], (10, 100))?;
    let bodies = (0..10).map(|n| vec![n; 50]).collect();
    stage.world.publish(nodes[0], Delivery::AtMostOnce, bodies);
    within(stage, "at first", (nodes[0], &last), seconds(1))?;
    stage.world.run_for(seconds(1));
    each_has(stage, &nodes, 20)?;
    replay(stage, nodes[0], &nodes[1..]);
    each_has(stage, &nodes, 20)?;
    stage.world.crash(nodes[4]);
    stage.world.run_for(seconds(1));
    let back = stage.world.restart(nodes[4], Restart::default());
    stage.within("it is back after", seconds(5), |world| {
        world.everyone_sees_life(back)
    })?;
    replay(stage, nodes[0], &[back]);
    stage.world.run_for(seconds(5));
    each_has(stage, &[back, nodes[1], nodes[2], nodes[3]], 20)
}

/// Every event of `sender` once more, in datagrams as it sent them, in the wrong order.
fn replay(stage: &mut Stage, sender: ProcessId, to: &[ProcessId]) {
    let process = stage.world.process(sender);
    let from = process.address;
    let told: Vec<ToldEvent> = process
        .store
        .events()
        .iter()
        .rev()
        .map(|event| ToldEvent {
            hop: 1,
            collects: true,
            what: ToldWhat::Whole(event.clone()),
        })
        .collect();
    let head = Sender {
        member: process.name.hash(),
        generation: process.node.state().generation,
        version: Default::default(),
    };
    let cluster = ClusterTag::of(&process.cluster);
    for told in told {
        let message = Message::Events(Events {
            sender: head,
            asked: List::default(),
            told: vec![told].into(),
        });
        let payload = wire::encode(cluster, &message);
        for &id in to {
            stage.world.inject(from, id, &payload);
        }
    }
}
