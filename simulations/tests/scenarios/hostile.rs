//! Bytes that no friend would send.

use rand::RngExt;
use rand::rngs::Xoshiro256PlusPlus;
use rand::{Rng, SeedableRng};
use rumord::protocol::Rejection;
use rumord::wire::{self, Carrier, ClusterTag};
use rumord_sim::{ProcessId, World};

use crate::stage::{seconds, settled};

const TRIES: usize = 20_000;

/// Datagrams and frames as a running cluster sends them, to be changed.
fn templates(world: &World, rng: &mut Xoshiro256PlusPlus) -> Vec<Vec<u8>> {
    let cluster = ClusterTag::of("default");
    let process = world.processes().next().expect("nodes run");
    let records: Vec<_> = process
        .node
        .records()
        .map(|record| wire::RecordUpdate {
            record: record.clone(),
            version: rumord::member::Version(7),
            age: wire::Age(rng.random_range(0..3)),
            lease_left: std::time::Duration::ZERO,
        })
        .collect();
    let sender = wire::Sender {
        member: process.name.hash(),
        generation: process.generation,
        version: rumord::member::Version(50),
    };
    let digest = wire::Digest {
        sender,
        ask: wire::Ask(1),
        cookie: None,
        salt: wire::Salt(7),
        summary: match rng.random() {
            true => wire::Summary::Records(vec![wire::ShortId(1); 5].into()),
            false => wire::Summary::Buckets(vec![wire::BucketSum(9); 512].into()),
        },
        extensions: wire::List::default(),
    };
    let difference = wire::Difference {
        sender,
        ask: wire::Ask(rng.next_u32()),
        place: wire::Place::ONLY,
        cookie: wire::Cookie(3),
        advice: wire::Advice::GoOn,
        adopted: 1,
        buckets: vec![wire::Bucket {
            number: 5,
            ids: vec![wire::ShortId(8)].into(),
        }]
        .into(),
        wanted: vec![wire::ShortId(9)].into(),
        records: records.clone().into(),
        extensions: wire::List::default(),
    };
    let delta = wire::Delta {
        sender,
        ask: wire::Ask(1),
        cookie: None,
        salt: wire::Salt(7),
        wanted: vec![wire::ShortId(4); 3].into(),
        records: records.clone().into(),
        last: rng.random(),
        extensions: wire::List::default(),
    };
    let announced = records.iter().filter_map(|told| {
        let metadata = told.record.current_metadata()?;
        Some(wire::Update::Announced(wire::Announcement {
            name: told.record.name.clone(),
            standing: told.record.standing,
            version: told.version,
            age: told.age,
            address: metadata.address,
            digest: wire::metadata_digest(metadata),
            holder: process.name.hash(),
        }))
    });
    let announced = wire::Gossip {
        updates: announced.collect::<Vec<_>>().into(),
        ..Default::default()
    };
    let values = wire::Values {
        sender,
        records: records[..1].to_vec().into(),
    };
    let gossip = wire::Gossip {
        updates: records
            .into_iter()
            .map(wire::Update::Record)
            .collect::<Vec<_>>()
            .into(),
        ..Default::default()
    };
    let target = wire::Target {
        member: process.name.hash(),
        generation: process.generation,
    };
    [
        wire::Message::Ping(wire::Ping {
            sender,
            seq: wire::ProbeSeq(1),
            target,
            period: wire::PeriodPhase::default(),
            gossip: gossip.clone(),
        }),
        wire::Message::News(wire::News { sender, gossip }),
        wire::Message::Digest(digest),
        wire::Message::Difference(difference),
        wire::Message::Delta(delta),
        wire::Message::News(wire::News {
            sender,
            gossip: announced,
        }),
        wire::Message::Values(values),
    ]
    .iter()
    .map(|message| wire::encode(cluster, message))
    .collect()
}

fn mutated(template: &[u8], rng: &mut Xoshiro256PlusPlus) -> Vec<u8> {
    let mut bytes = template.to_vec();
    match rng.random_range(0..4) {
        0 => bytes.truncate(rng.random_range(0..=template.len())),
        1 => bytes.extend((0..rng.random_range(1..40)).map(|_| rng.next_u32() as u8)),
        2 => {
            bytes = (0..rng.random_range(0..200))
                .map(|_| rng.next_u32() as u8)
                .collect();
        }
        _ => {
            for _ in 0..rng.random_range(1..6) {
                let place = rng.random_range(0..bytes.len());
                bytes[place] = rng.next_u32() as u8;
            }
        }
    }
    bytes
}

fn feed(world: &mut World, node: ProcessId, carrier: Carrier, bytes: &[u8]) {
    let stranger = ([10, 9, 9, 9], 999).into();
    match carrier {
        Carrier::Datagram => world.inject(stranger, node, bytes),
        Carrier::Stream => world.inject_frame(stranger, node, bytes),
    }
}

/// Garbage is counted and changes nothing; nothing at all makes a node panic.
#[test]
fn garbage_changes_no_table() {
    let cluster = ClusterTag::of("default");
    for seed in 1..=4 {
        let (mut world, nodes) = settled(seed, 5);
        let mut rng = Xoshiro256PlusPlus::seed_from_u64(seed);
        let templates = templates(&world, &mut rng);
        let mut garbage = 0;
        for n in 0..TRIES {
            let bytes = mutated(&templates[n % templates.len()], &mut rng);
            let carrier = [Carrier::Datagram, Carrier::Stream][n % 2];
            if wire::decode(cluster, &bytes, carrier).is_ok() {
                continue;
            }
            let node = nodes[n % nodes.len()];
            let before = world.process(node).node.revision();
            feed(&mut world, node, carrier, &bytes);
            assert_eq!(world.process(node).node.revision(), before);
            garbage += 1;
        }
        world.run_for(seconds(10.0));
        assert!(world.all_alive(), "seed {seed}");
        let counted = world.total(|stats| {
            let kinds = [
                Rejection::NotOurs,
                Rejection::Version,
                Rejection::Cluster,
                Rejection::Sealing,
                Rejection::UnknownType,
                Rejection::Malformed,
            ];
            kinds.map(|kind| stats.rejected.get(kind)).iter().sum()
        });
        assert_eq!(counted, garbage, "seed {seed}");
        assert!(garbage > TRIES as u64 / 2, "seed {seed}: {garbage}");
    }
}

/// What decodes may lie, and a lie may be believed; but nothing breaks.
#[test]
fn lies_break_nothing() {
    for seed in 1..=4 {
        let (mut world, nodes) = settled(seed, 5);
        let mut rng = Xoshiro256PlusPlus::seed_from_u64(seed);
        for n in 0..TRIES {
            if n % 100 == 0 {
                world.run_for(seconds(0.1));
            }
            let templates = templates(&world, &mut rng);
            let bytes = mutated(&templates[n % templates.len()], &mut rng);
            let carrier = [Carrier::Datagram, Carrier::Stream][n % 2];
            feed(&mut world, nodes[n % nodes.len()], carrier, &bytes);
        }
        world.run_for(seconds(30.0));
    }
}
