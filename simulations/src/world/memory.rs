//! What a process left in its data directory.

use rumord::member::{Remembered, Status};
use rumord::protocol::Input;
use rumord::time::Instant;

use super::World;
use crate::process::{Process, ProcessId};

impl World {
    /// A process that goes on from the data directory of `last` learns whom that knew.
    pub(super) fn remember(&mut self, id: ProcessId, last: ProcessId) {
        let members = self.left_by(&self.processes[last.0]);
        self.feed(id, Input::Remember { members: &members });
    }

    /// Everybody whom `process` knew at its end and who had not left, and those of whom it only
    /// remembered where they were.
    fn left_by(&self, process: &Process) -> Vec<Remembered> {
        let ended = process.ended_at.unwrap_or(self.now);
        let (local, down) = (process.clock.local(ended), self.now.since(ended));
        let silence = |since: Instant, status: Status| match status {
            Status::Dead => local.since(since) + down,
            _ => down,
        };
        let listed = process.node.members(local).filter_map(|member| {
            let wanted = !member.local && member.status != Status::Left;
            let metadata = member.metadata.filter(|_| wanted)?;
            Some(Remembered {
                name: member.name,
                address: metadata.address,
                node_id: member.node_id,
                generation: member.generation,
                silence: silence(member.since, member.status),
                stored: true,
            })
        });
        let remembered = process.node.remembered(local).map(|member| Remembered {
            silence: member.silence + down,
            stored: true,
            ..member
        });
        listed.chain(remembered).collect()
    }
}
