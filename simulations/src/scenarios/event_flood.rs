//! More events than a client should send, and members that change meanwhile.

use rumord::member::{Delivery, Tags};
use rumord::protocol::{Config, Direction, EventCount, MetadataChange, Transport};

use super::Scenario;
use super::delivered::total;
use super::stage::{Stage, milliseconds, seconds};

/// Events each second, of both kinds together.
const RATE: usize = 1000;
/// For how many seconds.
const SECONDS: usize = 5;
/// Batches in a second.
const BATCHES: usize = 50;

pub(super) const SCENARIO: Scenario = Scenario {
    name: "event-flood",
    story: "1000 events a second for 5 s among 10 members: none is lost, and news goes on in time",
    play,
};

fn play(stage: &mut Stage) -> Result<(), String> {
    let nodes = stage.settled(10);
    let since = stage.world.now();
    let bytes = |stage: &Stage| {
        let sent = (Direction::Sent, Transport::Datagram);
        let of = |&id: &_| stage.world.process(id).node.stats().bytes.get(sent);
        nodes.iter().map(of).max().unwrap_or_default()
    };
    let before = bytes(stage);
    let (mut slowest, mut backlog) = (0.0, 0);
    for batch in 0..SECONDS * BATCHES {
        let count = RATE / BATCHES / 2;
        for (sender, delivery) in [(0, Delivery::AtLeastOnce), (1, Delivery::AtMostOnce)] {
            let bodies = (0..count).map(|n| vec![n as u8; 80]).collect();
            stage.world.publish(nodes[sender], delivery, bodies);
            let waiting = stage.world.process(nodes[sender]).node.event_backlog();
            backlog = waiting.events.max(backlog);
        }
        if batch % BATCHES == BATCHES / 2 {
            let tags = Tags::from([("v".to_owned(), batch.to_string())]);
            stage.world.describe(nodes[0], &MetadataChange::Tags(tags));
            let known = stage
                .world
                .run_until(milliseconds(500), |world| world.everyone_reads(nodes[0]));
            let known = known.ok_or("a change of tags was not known within 500 ms")?;
            slowest = known.as_secs_f64().max(slowest);
            stage.world.run_for(milliseconds(20).saturating_sub(known));
        } else {
            stage.world.run_for(milliseconds(20));
        }
    }
    let rate = (bytes(stage) - before) / SECONDS as u64;
    stage.tell("bytes a second of the busiest member", rate);
    stage.tell("most events that waited for their first round", backlog);
    stage.tell(
        "slowest change of tags meanwhile",
        format!("{slowest:.3} s"),
    );
    let all = RATE * SECONDS;
    let has_all = |world: &crate::world::World| {
        let mut counts = nodes
            .iter()
            .map(|&id| world.process(id).store.events().len());
        counts.all(|count| count == all)
    };
    stage.within("all have all after", seconds(2), has_all)?;
    stage.tell("members asked directly", total(stage, EventCount::Asked));
    if rate > u64::from(Config::lan().event_rate) + 65_536 {
        return Err(format!("{rate} bytes a second"));
    }
    stage.nobody_else_dies(since, &[])
}
