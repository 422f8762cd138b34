//! Join addresses that are DNS names, answered by a name server of the test.

use std::time::{Duration, Instant};

use crate::agent::{count, member, poll};
use crate::cluster::{alive, all_alive};
use crate::dir::Dir;
use crate::lab::{Lab, v4, v6};
use crate::name_server::{NameServer, Record};

const SEEDS: &str = "members.example.org";

/// Hosts for agents, which ask the name server on one further host.
struct Named {
    lab: Lab,
    server: NameServer,
    _dir: Dir,
}

fn named(agents: usize) -> Named {
    let mut lab = Lab::new(agents + 1);
    let dir = Dir::new();
    let server = NameServer::on(&lab.hosts[agents]);
    let address = v4(agents + 1).to_string();
    for (host, number) in lab.hosts[..agents].iter_mut().zip(1..) {
        host.use_name_server(&address, &dir.path(&format!("resolv-{number}")));
    }
    Named {
        lab,
        server,
        _dir: dir,
    }
}

/// prometheus/alertmanager#1449, hashicorp/consul#22753, grafana/mimir#10866: names were looked up
/// once; while they were stale or missing, each node was an island, and ready.
pub fn stale_names_heal_without_a_restart() {
    let mut named = named(2);
    named.server.set_addresses(SEEDS, &[v4(150), v4(151)]);
    for number in [1, 2] {
        let name = format!("n{number}");
        named.lab.hosts[number - 1].start(&name, &["--join", SEEDS]);
    }
    let asked = named.server.asked();
    poll("looked up again", || {
        (named.server.asked() >= asked + 8).then_some(())
    });
    for host in &named.lab.hosts[..2] {
        assert_eq!(host.get("/readyz").status, 503);
        assert_eq!(host.get("/livez").status, 200);
        assert_eq!(count(&host.table(), "alive"), 1);
    }
    named.server.set_addresses(SEEDS, &[v4(1), v4(2)]);
    let corrected = Instant::now();
    alive(&named.lab, 2);
    let took = corrected.elapsed();
    println!("stale names: joined {took:.2?} after the name server's correction");
    assert!(took < Duration::from_secs(12), "{took:?}");
    for host in &named.lab.hosts[..2] {
        assert_eq!(host.get("/readyz").status, 200);
    }
}

/// hashicorp/serf#305: services are published with their ports. The name appears late.
pub fn a_service_name_carries_the_ports() {
    const SERVICE: &str = "_rumord._tcp.example.org";
    let mut named = named(3);
    named.lab.hosts[0].start("n1", &["--bind", "0.0.0.0:7491"]);
    named.lab.hosts[1].start("n2", &["--bind", "0.0.0.0:7492", "--join", SERVICE]);
    let asked = named.server.asked();
    poll("asked for in vain", || {
        (named.server.asked() > asked + 1).then_some(())
    });
    assert_eq!(named.lab.hosts[1].get("/readyz").status, 503);
    let services = [
        Record::Service(7491, "n1.example.org"),
        Record::Service(7492, "n2.example.org"),
        Record::Service(7493, "gone.example.org"),
    ];
    named
        .server
        .set("n1.example.org", vec![Record::Address(v4(1))]);
    named
        .server
        .set("n2.example.org", vec![Record::Address(v4(2))]);
    named.server.set(SERVICE, services.to_vec());
    named.lab.hosts[2].start("n3", &["--bind", "0.0.0.0:7493", "--join", SERVICE]);
    all_alive(&named.lab);
}

/// grafana/dskit#185, hashicorp/consul#6531: the IPv4 addresses of nodes that listen on IPv6 only
/// timed out one by one, and showed up as members.
pub fn nodes_of_ipv6_take_no_harm_from_ipv4_records() {
    let mut named = named(3);
    let both: Vec<_> = (1..=3)
        .flat_map(|number| [v4(number), v6(number)])
        .collect();
    named.server.set_addresses(SEEDS, &both);
    for number in 1..=3 {
        let name = format!("n{number}");
        let host = &mut named.lab.hosts[number - 1];
        host.start(&name, &["--bind", "[::]:7480", "--join", SEEDS]);
    }
    alive(&named.lab, 3);
    let table = named.lab.hosts[0].table();
    for number in 1..=3 {
        let expected = format!("[{}]:7480", v6(number));
        let row = member(&table, &format!("n{number}"));
        assert_eq!(row["address"], expected.as_str());
    }
    let started = Instant::now();
    let output = named.lab.hosts[0].client(&["join", SEEDS, &v4(2).to_string()]);
    let said = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(output.status.success(), "{said}");
    assert!(said.contains("joined") && said.contains("--bind"), "{said}");
    assert!(started.elapsed() < Duration::from_secs(10));
}

/// hashicorp/consul#1711, hashicorp/memberlist#58: one dead address of a name hid the others.
pub fn one_dead_address_of_a_name_hides_no_other() {
    let mut named = named(3);
    let dead = v4(150);
    named.server.set_addresses(SEEDS, &[dead, v4(1), v4(2)]);
    for number in 1..=2 {
        let name = format!("n{number}");
        named.lab.hosts[number - 1].start(&name, &["--join", SEEDS]);
    }
    alive(&named.lab, 2);
    named.lab.hosts[2].start("n3", &[]);
    let started = Instant::now();
    let join = |addresses: &[&str]| {
        let arguments = [&["join"], addresses].concat();
        let output = named.lab.hosts[2].client(&arguments);
        let said = String::from_utf8_lossy(&output.stdout).into_owned();
        (output.status.code(), said)
    };
    let (code, said) = join(&[&dead.to_string(), "nowhere.example.org"]);
    assert_eq!(code, Some(1), "{said}");
    assert!(
        said.contains("unreachable") && said.contains("unresolvable"),
        "{said}"
    );
    let (code, said) = join(&[SEEDS, &dead.to_string()]);
    assert_eq!(code, Some(0), "{said}");
    let line = |start: &str| said.lines().any(|line| line.starts_with(start));
    assert!(line(SEEDS) && line(&dead.to_string()), "{said}");
    assert!(started.elapsed() < Duration::from_secs(40), "in parallel");
    all_alive(&named.lab);
}
