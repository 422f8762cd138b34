//! Changes of what this node says of itself, each only over the state it was meant for.

use tokio::sync::oneshot;

use super::super::handle::{DescribeError, Described, Expected, MetadataVersion};
use super::Driver;
use crate::member::{NodeName, Service};
use crate::protocol::{Event, Input, MetadataChange, MetadataOutcome};

/// Who asked for a change of the self-description, and how that ended.
pub(super) type Waiting = (
    oneshot::Sender<Result<Described, DescribeError>>,
    Result<Described, DescribeError>,
);

impl Driver {
    /// Nothing else can change the core between the look at its state and the change.
    pub(super) fn describe(
        &mut self,
        change: &MetadataChange,
        expected: &Expected,
    ) -> Result<Described, DescribeError> {
        self.check(change, expected)?;
        let input = Input::Describe { change };
        self.core.handle(self.clock.now(), input, &mut self.outbox);
        let set = self
            .outbox
            .events
            .iter()
            .rev()
            .find_map(|event| match event {
                Event::MetadataSet(outcome) => Some(outcome.clone()),
                _ => None,
            });
        // The core answers every change.
        let outcome = set.unwrap_or(Ok(MetadataOutcome::Unchanged))?;
        Ok(Described {
            outcome,
            version: self.metadata_version(),
        })
    }

    fn check(&self, change: &MetadataChange, expected: &Expected) -> Result<(), DescribeError> {
        let offers = match change {
            MetadataChange::PutService(Service { name, .. })
            | MetadataChange::RemoveService(name) => self.offers(name),
            // There are always tags, and there is always a state of maintenance.
            _ => true,
        };
        match expected {
            Expected::OneOf(versions) if !versions.contains(&self.metadata_version()) => {
                Err(DescribeError::Stale)
            }
            Expected::Present if !offers => Err(DescribeError::Missing),
            Expected::Absent if offers => Err(DescribeError::Exists),
            _ => Ok(()),
        }
    }

    fn offers(&self, name: &NodeName) -> bool {
        let own = self.core.own_metadata();
        own.is_some_and(|own| own.services.iter().any(|service| service.name == *name))
    }

    fn metadata_version(&self) -> MetadataVersion {
        let own = self.core.own_metadata();
        MetadataVersion {
            generation: self.core.state().generation,
            version: own.map_or(0, |metadata| metadata.version),
        }
    }
}
