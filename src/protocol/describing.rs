//! What this node says of itself, and the maintenances that members announce.

use std::sync::Arc;

use super::dissemination::{Form, Urgency};
use super::{Event, MetadataChange, MetadataOutcome, Node, Outbox};
use crate::member::{Metadata, MetadataError, NameHash, NodeName, Record, Service};
use crate::wire::{Age, RecordUpdate};

impl Node {
    /// Changes the own metadata, and tells it.
    pub(super) fn on_describe(&mut self, change: &MetadataChange, out: &mut Outbox) {
        let outcome = self.describe(change, out);
        out.events.push(Event::MetadataSet(outcome));
    }

    fn describe(
        &mut self,
        change: &MetadataChange,
        out: &mut Outbox,
    ) -> Result<MetadataOutcome, MetadataError> {
        let own = self.local.hash;
        let held = self
            .table
            .get(own)
            .and_then(|entry| entry.record.current_metadata());
        let Some(mut metadata) = held.map(|held| (**held).clone()) else {
            // The own record always describes the own life.
            return Ok(MetadataOutcome::Unchanged);
        };
        let outcome = apply(change, &mut metadata);
        if matches!(
            outcome,
            MetadataOutcome::Unchanged | MetadataOutcome::Absent
        ) {
            return Ok(outcome);
        }
        metadata.version = metadata.version.saturating_add(1);
        metadata.check()?;
        let lease_left = match (change, &metadata.maintenance) {
            (MetadataChange::BeginMaintenance(lease), _) => lease.length,
            (_, Some(_)) => self.metadata.leases.left(own, self.now),
            (_, None) => Default::default(),
        };
        self.bump_version();
        let told = RecordUpdate {
            record: Record {
                name: self.local.name.clone(),
                standing: self.own_standing(),
                metadata: Some(metadata.into()),
            }
            .into(),
            version: self.heartbeat().version,
            age: Age(0),
            lease_left,
        };
        if let Some(change) = self.merge(&told) {
            let due = self.now + self.config.push_delay;
            self.news.publish(own, Form::Record, Urgency::Normal, due);
            self.emit_change(own, &change, None, out);
        }
        Ok(outcome)
    }

    /// What this node has said of itself last; it travels under this version.
    #[must_use]
    pub fn own_metadata(&self) -> Option<&Arc<Metadata>> {
        let own = self.table.get(self.local.hash)?;
        own.record.current_metadata()
    }

    /// The lease of the member that was just told of, as its record has it now.
    pub(super) fn note_lease(&mut self, told: &RecordUpdate) {
        let Some(said) = &told.record.metadata else {
            // A new standing alone: another life leaves the lease of the last one behind.
            self.drop_stale_lease(told.record.name.hash());
            return;
        };
        let member = told.record.name.hash();
        if said.maintenance.is_none() && self.metadata.leases.is_empty() {
            return;
        }
        let held = self
            .table
            .get(member)
            .and_then(|entry| entry.record.current_metadata());
        let Some(held) = held.filter(|held| held.maintenance.is_some()) else {
            self.metadata.leases.drop(member);
            return;
        };
        let key = |metadata: &Metadata| (metadata.generation, metadata.node_id, metadata.version);
        if key(held) == key(said) {
            let ends_at = self.now + told.lease_left;
            self.metadata.leases.learn(member, key(said), ends_at);
        }
    }

    fn drop_stale_lease(&mut self, member: NameHash) {
        if self.metadata.leases.is_empty() {
            return;
        }
        let entry = self.table.get(member);
        let runs = entry
            .and_then(|entry| entry.record.current_metadata())
            .is_some_and(|metadata| metadata.maintenance.is_some());
        if !runs {
            self.metadata.leases.drop(member);
        }
    }

    /// Readers see a maintenance end. The record stays as it is: everybody's clock decides for
    /// itself, and tables that differ by that alone must not look different.
    pub(super) fn end_leases(&mut self) {
        if self.metadata.leases.take_ended(self.now) {
            self.table.note_seen_change();
        }
    }

    /// Whether `member` has announced an absence that is not over.
    pub(super) fn is_excused(&self, member: NameHash) -> bool {
        self.metadata.leases.ends_at(member, self.now).is_some()
    }

    /// Counts two descriptions of one process under one version, of which one is a lie.
    pub(super) fn note_metadata_conflict(&mut self, member: NameHash, record: &Record) {
        let held = self
            .table
            .get(member)
            .and_then(|entry| entry.record.metadata.as_ref());
        if let (Some(held), Some(told)) = (held, &record.metadata) {
            let key =
                |metadata: &Metadata| (metadata.generation, metadata.node_id, metadata.version);
            if key(held) == key(told) && held != told {
                self.stats.metadata_conflicts += 1;
            }
        }
    }
}

/// Changes `metadata`, and says what that did.
fn apply(change: &MetadataChange, metadata: &mut Metadata) -> MetadataOutcome {
    match change {
        MetadataChange::Tags(tags) if *tags == metadata.tags => MetadataOutcome::Unchanged,
        MetadataChange::Tags(tags) => {
            metadata.tags.clone_from(tags);
            MetadataOutcome::Changed
        }
        MetadataChange::PutService(service) => put_service(service, &mut metadata.services),
        MetadataChange::RemoveService(name) => remove_service(name, &mut metadata.services),
        MetadataChange::BeginMaintenance(lease) => {
            metadata.maintenance = Some(lease.clone());
            MetadataOutcome::Changed
        }
        MetadataChange::EndMaintenance if metadata.maintenance.is_none() => {
            MetadataOutcome::Unchanged
        }
        MetadataChange::EndMaintenance => {
            metadata.maintenance = None;
            MetadataOutcome::Changed
        }
    }
}

/// Names are unique without regard to case; the spelling is the latest.
fn put_service(service: &Service, services: &mut Vec<Service>) -> MetadataOutcome {
    let same = |held: &Service| held.name.hash() == service.name.hash();
    match services.iter().position(same) {
        Some(place) if services[place] == *service => MetadataOutcome::Unchanged,
        Some(place) => {
            services[place] = service.clone();
            services.sort();
            MetadataOutcome::Changed
        }
        None => {
            services.push(service.clone());
            services.sort();
            MetadataOutcome::Added
        }
    }
}

fn remove_service(name: &NodeName, services: &mut Vec<Service>) -> MetadataOutcome {
    let before = services.len();
    services.retain(|held| held.name.hash() != name.hash());
    if services.len() < before {
        MetadataOutcome::Changed
    } else {
        MetadataOutcome::Absent
    }
}
