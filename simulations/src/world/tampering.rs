//! Nodes broken on purpose: what they hear is rewritten, so that they behave as a core with that
//! mistake would. The checks must notice.

use std::sync::Arc;

use rumord::member::{Incarnation, Record, Standing, Status};
use rumord::protocol::Node;
use rumord::wire::{
    self, Age, Carrier, ClusterTag, Gossip, HeartbeatEntry, List, Message, NameHashHigh,
    RecordUpdate, Sender, StatusUpdate, Update,
};
use serde::{Deserialize, Serialize};

/// Words of all ways, in their order.
pub const TAMPERING_WORDS: [&str; 4] = [
    "none",
    "heartbeats-revive-the-dead",
    "refutations-raise-nothing",
    "suspicion-is-a-verdict",
];

/// How nodes are broken.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Tampering {
    /// They are not.
    None,
    /// A heartbeat of a dead member brings it back, without a word of its own.
    HeartbeatsReviveTheDead,
    /// Whoever refutes does not raise its incarnation.
    RefutationsRaiseNothing,
    /// Who hears of a suspicion takes it for a verdict.
    SuspicionIsAVerdict,
}

impl Tampering {
    /// The way with this word.
    #[must_use]
    pub fn from_word(word: &str) -> Option<Self> {
        let ways = [
            Tampering::None,
            Tampering::HeartbeatsReviveTheDead,
            Tampering::RefutationsRaiseNothing,
            Tampering::SuspicionIsAVerdict,
        ];
        let place = TAMPERING_WORDS.iter().position(|&each| each == word)?;
        ways.get(place).copied()
    }

    /// What `node` of `cluster` hears instead of `frame`; `None` for the frame itself.
    #[must_use]
    pub fn rewrite(
        self,
        node: &Node,
        cluster: &str,
        frame: &[u8],
        carrier: Carrier,
    ) -> Option<Vec<u8>> {
        if self == Tampering::None {
            return None;
        }
        let tag = ClusterTag::of(cluster);
        let mut message = wire::decode(tag, frame, carrier).ok()?;
        self.rewrite_message(node, &mut message);
        Some(wire::encode(tag, &message))
    }

    fn rewrite_message(self, node: &Node, message: &mut Message) {
        match message {
            Message::Ping(ping) => self.rewrite_gossip(node, ping.sender, &mut ping.gossip),
            Message::Ack(ack) => self.rewrite_gossip(node, ack.sender, &mut ack.gossip),
            Message::PingReq(ask) => self.rewrite_gossip(node, ask.sender, &mut ask.gossip),
            Message::News(news) => self.rewrite_gossip(node, news.sender, &mut news.gossip),
            Message::Table(table) => self.rewrite_records(node, &mut table.records),
            Message::Difference(told) => self.rewrite_records(node, &mut told.records),
            Message::Delta(told) => self.rewrite_records(node, &mut told.records),
            Message::Values(values) => self.rewrite_records(node, &mut values.records),
            _ => {}
        }
    }

    fn rewrite_records<const MAX: usize>(self, node: &Node, told: &mut List<RecordUpdate, MAX>) {
        let mut records = std::mem::take(told).into_vec();
        for update in &mut records {
            self.rewrite_record(node, &mut update.record);
        }
        *told = records.into();
    }

    fn rewrite_gossip(self, node: &Node, sender: Sender, gossip: &mut Gossip) {
        let mut updates = std::mem::take(&mut gossip.updates).into_vec();
        for update in &mut updates {
            match update {
                Update::Record(told) => {
                    self.rewrite_record(node, &mut told.record);
                }
                Update::Status(told) => {
                    let Some(held) = held(node, told.member) else {
                        continue;
                    };
                    let Some(claimed) = told.standing(&held) else {
                        continue;
                    };
                    let standing = self.rewrite_standing(Some(held), claimed);
                    *told = StatusUpdate::of(told.member, &standing, told.age);
                }
                Update::Announced(told) => {
                    let held = held(node, told.name.hash());
                    told.standing = self.rewrite_standing(held, told.standing);
                }
            }
        }
        if self == Tampering::HeartbeatsReviveTheDead {
            let meant = |beat: &HeartbeatEntry| {
                let mut members = node.records().map(|record| record.name.hash());
                members.find(|&member| NameHashHigh::of(member) == beat.member)
            };
            let beats = gossip.heartbeats.iter().filter_map(meant);
            for member in beats.chain([sender.member]) {
                updates.extend(revived(node, member));
            }
            updates.truncate(List::<Update, 128>::MAX);
        }
        gossip.updates = updates.into();
    }

    fn rewrite_record(self, node: &Node, record: &mut Arc<Record>) {
        let held = held(node, record.name.hash());
        let told = self.rewrite_standing(held, record.standing);
        Arc::make_mut(record).standing = told;
    }

    fn rewrite_standing(self, held: Option<Standing>, told: Standing) -> Standing {
        match (self, held) {
            (Tampering::RefutationsRaiseNothing, Some(held))
                if told.instance() == held.instance() && told.status == Status::Alive =>
            {
                let incarnation = told.incarnation.min(held.incarnation);
                Standing {
                    incarnation,
                    ..told
                }
            }
            (Tampering::SuspicionIsAVerdict, _) if told.status == Status::Suspect => {
                told.with_status(Status::Dead)
            }
            _ => told,
        }
    }
}

fn held(node: &Node, member: rumord::member::NameHash) -> Option<Standing> {
    let mut records = node.records();
    let record = records.find(|record| record.name.hash() == member)?;
    Some(record.standing)
}

/// The claim that a member that is held for dead lives.
fn revived(node: &Node, member: rumord::member::NameHash) -> Option<Update> {
    let held = held(node, member).filter(|held| held.status == Status::Dead)?;
    let alive = Standing {
        incarnation: Incarnation(held.incarnation.0 + 1),
        ..held.with_status(Status::Alive)
    };
    Some(Update::Status(StatusUpdate::of(member, &alive, Age(0))))
}
