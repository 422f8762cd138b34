//! Agents that are killed and come back, one or all, in several orders.

use std::thread;
use std::time::Duration;

use crate::agent::member;
use crate::cluster::{all_alive, calm, nobody_dies};
use crate::dir::Dir;
use crate::host::status;
use crate::lab::{Lab, v4};
use crate::name_server::NameServer;

/// What differs between full stops.
struct Variant {
    /// In which order the agents start again.
    order: [usize; 4],
    pause: Duration,
    data: bool,
    new_addresses: bool,
}

/// Kills all agents at once and starts all again.
fn full_stop(variant: &Variant) {
    let mut lab = Lab::new(5);
    let dir = Dir::new();
    let server_address = v4(5).to_string();
    let server = NameServer::on(&lab.hosts[4]);
    let point = |offset: usize| {
        let addresses: Vec<_> = (1..=4).map(|number| v4(number + offset)).collect();
        server.set_addresses("members.example.org", &addresses);
    };
    for (host, number) in lab.hosts.iter_mut().zip(1..=4) {
        host.use_name_server(&server_address, &dir.path(&format!("resolv-{number}")));
    }
    let start = |lab: &mut Lab, number: usize| {
        let (name, data) = (format!("n{number}"), dir.path(&format!("n{number}")));
        let mut arguments = vec!["--join", "members.example.org"];
        if variant.data {
            arguments.extend(["--data-dir", &data]);
        }
        lab.hosts[number - 1].start(&name, &arguments);
    };
    point(0);
    (1..=4).for_each(|number| start(&mut lab, number));
    all_alive(&lab);
    lab.hosts.iter_mut().for_each(|host| host.kill());
    if variant.new_addresses {
        for (host, number) in lab.hosts.iter().zip(1..=4) {
            let (old, new) = (v4(number), v4(number + 100));
            host.ip(&format!(
                "addr del {old}/24 dev eth0\naddr add {new}/24 dev eth0\n"
            ));
        }
        point(100);
    }
    for number in variant.order {
        start(&mut lab, number);
        thread::sleep(variant.pause);
    }
    all_alive(&lab);
    nobody_dies(&lab);
}

/// hashicorp/serf#333, rqlite/rqlite#1293: after an outage of all, some stayed out.
pub fn a_full_stop_without_data_ends_whole() {
    full_stop(&Variant {
        order: [3, 1, 4, 2],
        pause: Duration::from_millis(1500),
        data: false,
        new_addresses: false,
    });
}

/// The same, with what the data directories hold.
pub fn a_full_stop_with_data_ends_whole() {
    full_stop(&Variant {
        order: [4, 3, 2, 1],
        pause: Duration::from_secs(3),
        data: true,
        new_addresses: false,
    });
}

/// hashicorp/consul#1271, prometheus/alertmanager#1449: all came back with other addresses.
pub fn a_full_stop_without_data_and_new_addresses_ends_whole() {
    full_stop(&Variant {
        order: [2, 4, 1, 3],
        pause: Duration::ZERO,
        data: false,
        new_addresses: true,
    });
}

/// The same, with data directories that hold the old addresses.
pub fn a_full_stop_with_data_and_new_addresses_ends_whole() {
    full_stop(&Variant {
        order: [1, 2, 3, 4],
        pause: Duration::ZERO,
        data: true,
        new_addresses: true,
    });
}

/// hashicorp/consul#733, #4879: a restart with another address was a name conflict to every peer.
pub fn a_restart_on_a_new_address_is_one_restart() {
    let mut lab = Lab::new(5);
    let dir = Dir::new();
    let (data, first) = (dir.path("n5"), v4(1).to_string());
    let with_data = ["--join", &first, "--data-dir", &data];
    let plain = ["--join", first.as_str()];
    for number in 1..=4 {
        lab.hosts[number - 1].start(&format!("n{number}"), &plain);
    }
    lab.hosts[4].start("n5", &with_data);
    all_alive(&lab);
    let restarts = |lab: &Lab| -> Vec<u64> {
        let watching = &lab.hosts[..3];
        watching
            .iter()
            .map(|host| host.events("member-restarted"))
            .collect()
    };
    for (number, arguments) in [(5, &with_data[..]), (4, &plain[..])] {
        let before = restarts(&lab);
        let new = v4(number + 100);
        lab.hosts[number - 1].kill();
        lab.hosts[number - 1].ip(&format!(
            "addr del {}/24 dev eth0\naddr add {new}/24 dev eth0\n",
            v4(number)
        ));
        let (name, address) = (format!("n{number}"), format!("{new}:7480"));
        lab.hosts[number - 1].start(&name, arguments);
        lab.on_all(|host| {
            host.wait_for("the new address", |table| {
                member(table, &name)["address"] == address.as_str()
                    && status(table, &name) == "alive"
            })
        });
        calm(&lab);
        // Without the identity of its earlier life it is a stranger, admitted when the holder of the
        // name has been silent for as long as a death takes: a death may come first.
        let stranger = !arguments.contains(&"--data-dir");
        for ((host, before), after) in lab.hosts.iter().zip(&before).zip(&restarts(&lab)) {
            let (deaths, restarts) = (host.events("member-dead"), after - before);
            let fits = (restarts, deaths) == (1, 0) || stranger && (restarts, deaths) == (0, 1);
            assert!(fits, "{name}: {restarts} restarts, {deaths} deaths");
        }
    }
    for host in &lab.hosts {
        let conflicts = host.ask(|agent| agent.metric("rumord_events_total", &["conflict"]));
        assert_eq!(conflicts, 0.0);
    }
}
