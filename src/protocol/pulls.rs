//! Metadata too large for a datagram that this node was told of and does not hold yet.

use std::collections::{BTreeMap, VecDeque};
use std::net::SocketAddr;

use super::outbox::ExchangeId;
use crate::member::{Generation, NameHash, NodeId};
use crate::wire::MetadataDigest;

/// Most members whose metadata is awaited; what is beyond is found by comparing tables.
const WANTED_MAX: usize = 4096;
/// Holders remembered for one member's metadata.
const SOURCES_MAX: usize = 4;
/// Holders asked for it, before it is left to comparing tables.
const ASKED_MAX: usize = 8;

/// The life that metadata describes.
pub type Instance = (Generation, NodeId);

/// What is awaited about one member.
#[derive(Debug)]
struct Wanted {
    instance: Instance,
    digest: MetadataDigest,
    address: SocketAddr,
    /// Who was asked last, or will be asked first.
    holder: NameHash,
    /// Who has it and has not been asked, in the order in which that was heard.
    sources: VecDeque<NameHash>,
    /// Who has been asked: once is enough.
    asked: Vec<NameHash>,
    running: Option<ExchangeId>,
    /// Whether it had nobody to ask already when that was looked at last.
    idle: bool,
}

impl Wanted {
    fn is_idle(&self) -> bool {
        self.running.is_none() && self.sources.is_empty()
    }

    fn add(&mut self, source: NameHash) {
        let known = self.sources.contains(&source) || self.asked.contains(&source);
        if !known && self.sources.len() < SOURCES_MAX && self.asked.len() < ASKED_MAX {
            self.sources.push_back(source);
        }
    }
}

/// One entry for each member; each is pulled from one holder at a time.
#[derive(Debug, Default)]
pub struct Pulls {
    wanted: BTreeMap<NameHash, Wanted>,
}

impl Pulls {
    /// Whether nobody is being asked, or about to be.
    #[must_use]
    pub fn is_idle(&self) -> bool {
        self.wanted.values().all(Wanted::is_idle)
    }

    /// `source` holds what `digest` says of the life `instance` of `member`, which is reached at
    /// `address`. Whether it was news: something newer than what is awaited already.
    pub fn announced(
        &mut self,
        member: NameHash,
        instance: Instance,
        digest: MetadataDigest,
        (address, source): (SocketAddr, NameHash),
    ) -> bool {
        if let Some(wanted) = self.wanted.get_mut(&member) {
            let held = (wanted.instance, wanted.digest.version);
            let told = (instance, digest.version);
            if told == held {
                wanted.add(source);
            }
            if told <= held {
                return false;
            }
        } else if self.wanted.len() >= WANTED_MAX {
            return false;
        }
        let running = self.wanted.get(&member).and_then(|held| held.running);
        let wanted = Wanted {
            instance,
            digest,
            address,
            holder: source,
            sources: VecDeque::from([source]),
            asked: Vec::new(),
            running,
            idle: false,
        };
        self.wanted.insert(member, wanted);
        true
    }

    /// A member whose metadata nobody is being asked for, and whom to ask for what.
    pub fn next(&mut self) -> Option<(NameHash, NameHash, Instance, MetadataDigest)> {
        let waits = |(_, wanted): &(&NameHash, &mut Wanted)| {
            wanted.running.is_none() && !wanted.sources.is_empty()
        };
        let (&member, wanted) = self.wanted.iter_mut().find(waits)?;
        let source = wanted.sources.pop_front()?;
        wanted.asked.push(source);
        wanted.holder = source;
        Some((member, source, wanted.instance, wanted.digest))
    }

    /// The metadata of `member` is being pulled through `exchange`.
    pub fn started(&mut self, member: NameHash, exchange: ExchangeId) {
        if let Some(wanted) = self.wanted.get_mut(&member) {
            wanted.running = Some(exchange);
        }
    }

    /// The pull of the metadata of `member` through `exchange` has ended. Without another holder
    /// it is awaited for a little longer: the next may be heard of, and the last is not asked
    /// again.
    pub fn ended(&mut self, member: NameHash, exchange: ExchangeId) {
        if let Some(wanted) = self.wanted.get_mut(&member)
            && wanted.running == Some(exchange)
        {
            wanted.running = None;
        }
    }

    /// Gives up what had nobody to ask for a whole turn: comparing tables will bring it.
    pub fn sweep(&mut self) {
        self.wanted
            .retain(|_, wanted| !(wanted.is_idle() && std::mem::replace(&mut wanted.idle, true)));
    }

    /// This node holds version `version` of what the life `instance` of `member` says of itself.
    pub fn held(&mut self, member: NameHash, instance: Instance, version: u32) {
        let settled =
            |wanted: &Wanted| (wanted.instance, wanted.digest.version) <= (instance, version);
        if self.wanted.get(&member).is_some_and(settled) {
            self.wanted.remove(&member);
        }
    }

    /// `member` is not awaited any more.
    pub fn drop(&mut self, member: NameHash) {
        self.wanted.remove(&member);
    }

    /// Who is asked, or was asked last, for what is awaited of `member`.
    #[must_use]
    pub fn holder(&self, member: NameHash) -> Option<NameHash> {
        self.wanted.get(&member).map(|wanted| wanted.holder)
    }

    /// What is awaited of `member`.
    #[must_use]
    pub fn wanted(&self, member: NameHash) -> Option<(Instance, MetadataDigest)> {
        let wanted = self.wanted.get(&member)?;
        Some((wanted.instance, wanted.digest))
    }

    /// Where the life `instance` of `member` is reached, as it was announced.
    #[must_use]
    pub fn address(&self, member: NameHash, instance: Instance) -> Option<SocketAddr> {
        let wanted = self.wanted.get(&member)?;
        (wanted.instance == instance).then_some(wanted.address)
    }
}

/// The digests of the large metadata that this node holds: taking one reads all of it.
#[derive(Debug, Default)]
pub struct Digests {
    digests: BTreeMap<NameHash, (Instance, MetadataDigest)>,
}

impl Digests {
    /// The digest of what `instance` said under `version`.
    #[must_use]
    pub fn get(
        &self,
        member: NameHash,
        instance: Instance,
        version: u32,
    ) -> Option<MetadataDigest> {
        let &(held, digest) = self.digests.get(&member)?;
        ((held, digest.version) == (instance, version)).then_some(digest)
    }

    /// Keeps one for `member`.
    pub fn keep(&mut self, member: NameHash, instance: Instance, digest: MetadataDigest) {
        self.digests.insert(member, (instance, digest));
    }

    /// `member` has no large metadata any more.
    pub fn drop(&mut self, member: NameHash) {
        self.digests.remove(&member);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn who(n: u64) -> NameHash {
        NameHash::from_wire(n.to_be_bytes())
    }

    fn life(generation: u64) -> Instance {
        (Generation(generation), NodeId(1))
    }

    fn digest(version: u32) -> MetadataDigest {
        MetadataDigest {
            version,
            bytes: 1000,
            hash: u64::from(version),
        }
    }

    fn told(pulls: &mut Pulls, version: u32, source: u64) -> bool {
        let from = (([10, 0, 0, 1], 7480).into(), who(source));
        pulls.announced(who(1), life(1), digest(version), from)
    }

    #[test]
    fn one_holder_is_asked_at_a_time_and_the_next_when_it_fails() {
        let mut pulls = Pulls::default();
        assert!(told(&mut pulls, 3, 2));
        assert!(!told(&mut pulls, 3, 4), "known already");
        assert!(!told(&mut pulls, 2, 5), "older");
        let asked = |pulls: &mut Pulls| pulls.next().map(|(_, source, ..)| source);
        assert_eq!(asked(&mut pulls), Some(who(2)));
        pulls.started(who(1), ExchangeId(7));
        assert_eq!(asked(&mut pulls), None, "one at a time");
        pulls.ended(who(1), ExchangeId(6));
        assert_eq!(asked(&mut pulls), None, "another exchange ended");
        pulls.ended(who(1), ExchangeId(7));
        assert_eq!(asked(&mut pulls), Some(who(4)));
        pulls.started(who(1), ExchangeId(8));
        assert!(!pulls.is_idle());
        pulls.ended(who(1), ExchangeId(8));
        assert!(pulls.is_idle(), "nobody else has it");
        assert!(!told(&mut pulls, 3, 4), "no news");
        assert_eq!(asked(&mut pulls), None, "asked once");
        pulls.sweep();
        told(&mut pulls, 3, 6);
        assert_eq!(asked(&mut pulls), Some(who(6)));
        for _ in 0..2 {
            pulls.sweep();
        }
        assert!(pulls.wanted.is_empty(), "given up");
    }

    #[test]
    fn a_newer_version_replaces_what_is_awaited() {
        let mut pulls = Pulls::default();
        told(&mut pulls, 3, 2);
        pulls.next();
        pulls.started(who(1), ExchangeId(7));
        assert!(told(&mut pulls, 4, 5));
        pulls.held(who(1), life(1), 3);
        assert_eq!(pulls.wanted(who(1)), Some((life(1), digest(4))));
        pulls.ended(who(1), ExchangeId(7));
        assert_eq!(pulls.next().map(|(_, source, ..)| source), Some(who(5)));
        pulls.held(who(1), life(1), 4);
        assert!(pulls.wanted.is_empty());
    }

    #[test]
    fn what_is_awaited_has_a_limit() {
        let mut pulls = Pulls::default();
        let from = (([10, 0, 0, 1], 7480).into(), who(1));
        for n in 0..2 * WANTED_MAX as u64 {
            pulls.announced(who(n), life(1), digest(1), from);
        }
        assert_eq!(pulls.wanted.len(), WANTED_MAX);
        for source in 0..9 {
            let from = (([10, 0, 0, 1], 7480).into(), who(source));
            pulls.announced(who(1), life(1), digest(1), from);
        }
        assert_eq!(pulls.wanted[&who(1)].sources.len(), SOURCES_MAX);
    }

    #[test]
    fn a_digest_belongs_to_one_version_of_one_life() {
        let mut digests = Digests::default();
        digests.keep(who(1), life(2), digest(3));
        assert_eq!(digests.get(who(1), life(2), 3), Some(digest(3)));
        assert_eq!(digests.get(who(1), life(2), 4), None);
        assert_eq!(digests.get(who(1), life(3), 3), None);
        digests.drop(who(1));
        assert_eq!(digests.get(who(1), life(2), 3), None);
    }
}
