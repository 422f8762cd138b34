//! Large metadata: announced in a few bytes, pulled once over a stream from who is said to have it.
//!
//! A status never waits for it: an announcement carries the standing, which is adopted at once.
//! Until the new metadata has come, the one held before shows, and the fingerprint says so; what no
//! holder could give is found by comparing tables.

use std::net::SocketAddr;
use std::time::Duration;

use super::dissemination::{ByteBucket, Form, Urgency};
use super::leases::Leases;
use super::pulls::{Digests, Pulls};
use super::streams::Exchange;
use super::table::Entry;
use super::updates::Source;
use super::{ArrivalWindow, ExchangeId, Node, Outbox, Rejection, StreamId};
use crate::member::{Metadata, NameHash, Record, Tags, WireRange, is_advertisable};
use crate::time::Instant;
use crate::wire::{
    self, Announcement, Message, MetadataDigest, Pull, RecordUpdate, Update, Values,
};

/// Pulls that this node has under way at a time.
const PULLS_MAX: usize = 8;
/// How long one pull may take.
const PULL_TIMEOUT: Duration = Duration::from_secs(5);

/// Metadata that a node gives to others on demand, in bytes per second and at once: as much as one
/// large change in a large cluster takes from its owner.
const SERVE_RATE: u32 = 4 << 20;
/// See [`SERVE_RATE`].
const SERVE_BURST: u32 = 4 << 20;

/// What a node knows of what members say of themselves, beside their records.
#[derive(Debug)]
pub(super) struct MetadataBook {
    /// When the maintenances that members have announced end.
    pub(super) leases: Leases,
    /// Large metadata that was announced and has not come yet.
    pub(super) pulls: Pulls,
    pub(super) digests: Digests,
    /// Bounds what is given to others.
    serve_budget: ByteBucket,
}

impl MetadataBook {
    /// Nothing is awaited.
    pub(super) fn new(now: Instant) -> Self {
        MetadataBook {
            leases: Leases::default(),
            pulls: Pulls::default(),
            digests: Digests::default(),
            serve_budget: ByteBucket::new(SERVE_RATE, SERVE_BURST, now),
        }
    }
}

impl Node {
    /// The entry as it is told in a datagram: whole, or by announcing what is too large.
    pub(super) fn told(&self, member: NameHash, entry: &Entry<ArrivalWindow>) -> Update {
        let large = entry.record.current_metadata();
        let large = large.filter(|metadata| metadata.is_large());
        let held = large.map(|metadata| {
            let digest = self.digest(member, metadata);
            (metadata.address, digest, self.local.hash)
        });
        let Some((address, digest, holder)) = self.awaited(member, entry).or(held) else {
            return Update::Record(self.record_update(entry));
        };
        Update::Announced(Announcement {
            name: entry.record.name.clone(),
            standing: entry.record.standing,
            version: entry.version,
            age: entry.age(self.now),
            address,
            digest,
            holder,
        })
    }

    /// Where `member` is reached, what it says of itself, and who holds that, while this node waits
    /// for it: it tells at once what it was told, and does not keep others waiting, too.
    fn awaited(
        &self,
        member: NameHash,
        entry: &Entry<ArrivalWindow>,
    ) -> Option<(SocketAddr, MetadataDigest, NameHash)> {
        let (instance, digest) = self.metadata.pulls.wanted(member)?;
        let address = self
            .metadata
            .pulls
            .address(member, entry.record.standing.instance())?;
        let current = entry.record.current_metadata();
        let newer = current.is_none_or(|held| {
            (held.generation, held.node_id) == instance && held.version < digest.version
        });
        let holder = self.metadata.pulls.holder(member)?;
        newer.then_some((address, digest, holder))
    }

    fn digest(&self, member: NameHash, metadata: &Metadata) -> MetadataDigest {
        let instance = (metadata.generation, metadata.node_id);
        let kept = self
            .metadata
            .digests
            .get(member, instance, metadata.version);
        kept.unwrap_or_else(|| wire::metadata_digest(metadata))
    }

    /// What follows for leases, digests and pulls from what was just merged.
    pub(super) fn note_description(&mut self, told: &RecordUpdate) {
        self.note_lease(told);
        if told.record.metadata.is_none() {
            return;
        }
        let member = told.record.name.hash();
        let held = self.table.get(member);
        let Some(held) = held.and_then(|entry| entry.record.current_metadata()) else {
            return;
        };
        let instance = (held.generation, held.node_id);
        self.metadata.pulls.held(member, instance, held.version);
        if !held.is_large() {
            self.metadata.digests.drop(member);
        } else if self
            .metadata
            .digests
            .get(member, instance, held.version)
            .is_none()
        {
            self.metadata
                .digests
                .keep(member, instance, wire::metadata_digest(held));
        }
    }

    /// Somebody announces a record whose metadata is large; whether that was news.
    pub(super) fn adopt_announcement(&mut self, told: &Announcement, out: &mut Outbox) -> bool {
        let own = told.name.hash() == self.local.hash;
        let record = Record {
            name: told.name.clone(),
            standing: told.standing,
            // Of a copy of this process the address is all that betrays it.
            metadata: own.then(|| bare_metadata(told).into()),
        };
        let refused = if is_advertisable(told.address) {
            self.check_record(&record).err()
        } else {
            Some(Rejection::Metadata)
        };
        if let Some(reason) = refused {
            self.reject(reason);
            return false;
        }
        let wanted = self.want(told);
        let update = RecordUpdate {
            record: record.into(),
            version: told.version,
            age: told.age,
            lease_left: Duration::ZERO,
        };
        let changed = self.adopt_record(&update, Source::Told, out);
        let member = told.name.hash();
        self.drop_unlisted_pull(member);
        if wanted && self.metadata.pulls.wanted(member).is_some() {
            let due = self.now + self.config.push_delay;
            self.news
                .publish(member, Form::Record, Urgency::Normal, due);
        }
        self.start_pulls(out);
        changed || wanted
    }

    /// Notes who holds what this node lacks, if it does lack it.
    fn want(&mut self, told: &Announcement) -> bool {
        let member = told.name.hash();
        let instance = told.standing.instance();
        let entry = self.table.get(member);
        let another_wins = entry.is_some_and(|entry| {
            entry.record.standing.instance() != instance && entry.record.standing > told.standing
        });
        if member == self.local.hash || another_wins {
            return false;
        }
        let held = entry.and_then(|entry| entry.record.current_metadata());
        let held = held.filter(|held| (held.generation, held.node_id) == instance);
        let lacks = held.is_none_or(|held| {
            // Two contents under one version: the merge decides, once both are known.
            held.version < told.digest.version
                || (held.version == told.digest.version && self.digest(member, held) != told.digest)
        });
        let from = (told.address, told.holder);
        lacks
            && self
                .metadata
                .pulls
                .announced(member, instance, told.digest, from)
    }

    /// A record too old to be learnt, or of a life that another one has beaten, is not awaited.
    fn drop_unlisted_pull(&mut self, member: NameHash) {
        let Some((instance, _)) = self.metadata.pulls.wanted(member) else {
            return;
        };
        let entry = self.table.get(member).filter(|entry| entry.listed);
        if entry.is_none_or(|entry| entry.record.standing.instance() != instance) {
            self.metadata.pulls.drop(member);
        }
    }

    /// Asks for what is awaited, as far as there are places.
    pub(super) fn start_pulls(&mut self, out: &mut Outbox) {
        while self.pulls_under_way() < PULLS_MAX {
            let Some((member, source, (generation, node_id), digest)) = self.metadata.pulls.next()
            else {
                return;
            };
            // A holder of whom nothing is known yet is passed over.
            let Some(to) = self
                .address_of(source)
                .filter(|_| source != self.local.hash)
            else {
                continue;
            };
            let pull = Pull {
                sender: self.sender(),
                member,
                generation,
                node_id,
                digest,
            };
            let exchange = self.new_exchange_id();
            self.metadata.pulls.started(member, exchange);
            let purpose = Exchange::Pull { member };
            let request = [Message::Pull(pull)];
            self.open_exchange(exchange, purpose, to, &request, PULL_TIMEOUT, out);
        }
    }

    fn pulls_under_way(&self) -> usize {
        let pull = |purpose: &&Exchange| matches!(purpose, Exchange::Pull { .. });
        self.exchanges.values().filter(pull).count()
    }

    /// Somebody wants the metadata of a member. It gets nothing where this node has nothing as new,
    /// or has given much lately: then it asks another.
    pub(super) fn on_pull(&mut self, stream: StreamId, pull: &Pull, out: &mut Outbox) {
        self.hear_sender(&pull.sender);
        let entry = self.table.get(pull.member).filter(|entry| entry.listed);
        let held = entry.filter(|entry| {
            let current = entry.record.current_metadata();
            let asked = (pull.generation, pull.node_id);
            entry.record.standing.instance() == asked
                && current.is_some_and(|held| held.version >= pull.digest.version)
        });
        let update = held.map(|entry| self.record_update(entry));
        let served = self.metadata.serve_budget.wait(self.now).is_zero();
        if update.is_some() && !served {
            self.drop_for_limit("pull");
        }
        let records: Vec<_> = update.into_iter().filter(|_| served).collect();
        for record in &records {
            let bytes = wire::update_bytes(&Update::Record(record.clone()));
            self.metadata.serve_budget.take(self.now, bytes);
        }
        let values = Values {
            sender: self.sender(),
            records: records.into(),
        };
        self.answer(stream, &[Message::Values(values)], out);
    }

    /// The metadata of `member` has come, or the holder had nothing to give.
    pub(super) fn on_values(
        &mut self,
        exchange: ExchangeId,
        member: NameHash,
        values: &Values,
        out: &mut Outbox,
    ) {
        self.exchanges.remove(&exchange);
        self.hear_sender(&values.sender);
        self.note_stream_answer(values.sender.member, out);
        for record in values.records.iter() {
            if self.is_as_announced(member, &record.record) {
                self.adopt_record(record, Source::Told, out);
            } else {
                self.reject(Rejection::Metadata);
            }
        }
        self.metadata.pulls.ended(member, exchange);
        self.start_pulls(out);
    }

    /// Whether `record` is about `member` and holds what its announcement promised.
    fn is_as_announced(&self, member: NameHash, record: &Record) -> bool {
        let Some(metadata) = record.current_metadata() else {
            return false;
        };
        let instance = (metadata.generation, metadata.node_id);
        let differs = self
            .metadata
            .pulls
            .wanted(member)
            .is_some_and(|(wanted, digest)| {
                (wanted, digest.version) == (instance, metadata.version)
                    && wire::metadata_digest(metadata) != digest
            });
        record.name.hash() == member && !differs
    }

    /// A pull has failed: the next holder is asked.
    pub(super) fn on_pull_failed(
        &mut self,
        exchange: ExchangeId,
        member: NameHash,
        out: &mut Outbox,
    ) {
        self.metadata.pulls.ended(member, exchange);
        self.start_pulls(out);
    }
}

/// As much of the metadata as an announcement tells.
fn bare_metadata(told: &Announcement) -> Metadata {
    let (generation, node_id) = told.standing.instance();
    Metadata {
        generation,
        node_id,
        version: told.digest.version,
        address: told.address,
        tags: Tags::new(),
        services: Vec::new(),
        wire: WireRange {
            min: wire::VERSION,
            max: wire::VERSION,
        },
        maintenance: None,
    }
}
