//! What scenarios about user events have in common.

use std::time::Duration;

use rumord::member::{Delivery, EventRef};
use rumord::protocol::EventCount;

use super::stage::Stage;
use crate::process::ProcessId;

/// Sends so many events of so many bytes; says which the last one is.
pub(super) fn send(
    stage: &mut Stage,
    sender: ProcessId,
    (count, bytes): (usize, usize),
) -> Result<EventRef, String> {
    let bodies = (0..count).map(|n| vec![n as u8; bytes]).collect();
    let sent = stage.world.publish(sender, Delivery::AtLeastOnce, bodies);
    sent.last()
        .copied()
        .ok_or_else(|| "nothing was sent".to_owned())
}

/// Waits until everybody has `event` and `sender` knows that nobody is owed it.
pub(super) fn within(
    stage: &mut Stage,
    what: &str,
    (sender, event): (ProcessId, &EventRef),
    bound: Duration,
) -> Result<Duration, String> {
    let has = format!("{what}: all have it after");
    stage.within(&has, bound, |world| world.everyone_has(event))?;
    let knows = format!("{what}: and the sender knows after");
    stage.within(&knows, bound, |world| world.sender_knows(sender, event))
}

/// Demands that each of `nodes` has exactly `count` events.
pub(super) fn each_has(stage: &Stage, nodes: &[ProcessId], count: usize) -> Result<(), String> {
    for &node in nodes {
        let process = stage.world.process(node);
        let has = process.store.events().len();
        if has != count {
            return Err(format!("{} has {has} events of {count}", process.name));
        }
    }
    Ok(())
}

/// How often something happened to events.
pub(super) fn total(stage: &Stage, what: EventCount) -> u64 {
    stage.world.total(|stats| stats.events.get(what))
}
