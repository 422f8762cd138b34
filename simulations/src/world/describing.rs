//! What nodes say of themselves while they run.

use rumord::protocol::{Input, MetadataChange};

use super::World;
use crate::process::ProcessId;

impl World {
    /// Changes what a node says of itself; it says how that ended in an event.
    pub fn describe(&mut self, id: ProcessId, change: &MetadataChange) {
        self.trace.note(
            self.now,
            Some(&self.processes[id.0]),
            "describe",
            format_args!("{}", word(change)),
        );
        self.feed(id, Input::Describe { change });
    }

    /// Whether every process that is up and of the same cluster shows what `subject` says of
    /// itself, the newest version, in full.
    #[must_use]
    pub fn everyone_reads(&self, subject: ProcessId) -> bool {
        let subject = self.process(subject);
        let said = subject.node.own_metadata();
        let reads = |observer: &crate::process::Process| {
            let held = observer.node.record_of(&subject.name);
            held.and_then(|record| record.current_metadata()) == said
        };
        self.up()
            .filter(|process| process.cluster == subject.cluster)
            .all(reads)
    }
}

fn word(change: &MetadataChange) -> String {
    match change {
        MetadataChange::Tags(tags) => {
            let bytes: usize = tags
                .iter()
                .map(|(key, value)| key.len() + value.len())
                .sum();
            format!("{} tags of {bytes} bytes", tags.len())
        }
        MetadataChange::PutService(service) => format!("service {}", service.name),
        MetadataChange::RemoveService(name) => format!("no service {name}"),
        MetadataChange::BeginMaintenance(lease) => format!("maintenance {:?}", lease.length),
        MetadataChange::EndMaintenance => "no maintenance".to_owned(),
    }
}
