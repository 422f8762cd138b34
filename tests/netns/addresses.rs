//! Which address an agent is known by, on hosts of every kind.

use std::process::Command;

use serde_json::Value;

use crate::agent::member;
use crate::cluster::{all_alive, nobody_dies};
use crate::host::Host;
use crate::lab::{Lab, v4};

fn own(host: &Host) -> Value {
    serde_json::from_str(&host.get("/v1/self").body).expect("JSON")
}

/// What an agent that cannot start on `host` says, and its exit code.
fn refusal(host: &Host, arguments: &[&str]) -> (Option<i32>, String) {
    let output = host.inside(|| {
        Command::new(env!("CARGO_BIN_EXE_rumord"))
            .args(["agent", "--name", "n1", "--http", "off"])
            .args(arguments)
            .output()
            .expect("the program starts")
    });
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    (output.status.code(), said)
}

/// grafana/loki#8634, grafana/mimir#4848, hashicorp/consul#725: no start where the only address was
/// public, carrier-grade or unique local. None of these hosts has a default route.
pub fn any_only_address_is_used() {
    let kinds = [
        ("100.64.1.5/10", "0.0.0.0:7480", "100.64.1.5:7480"),
        ("93.184.216.34/24", "0.0.0.0:7480", "93.184.216.34:7480"),
        ("fd12:3456::7/64", "[::]:7480", "[fd12:3456::7]:7480"),
        ("2001:db8::7/64", "[::]:7480", "[2001:db8::7]:7480"),
    ];
    let mut lab = Lab::without_addresses(kinds.len());
    for (host, (address, bind, advertised)) in lab.hosts.iter_mut().zip(kinds) {
        let duplicates = if address.contains("::") { "nodad" } else { "" };
        host.ip(&format!("addr add {address} dev eth0 {duplicates}\n"));
        host.start("n1", &["--bind", bind]);
        assert_eq!(own(host)["advertised"], advertised);
    }
}

/// The same reports: the error must name the option that helps.
pub fn without_any_address_the_error_names_the_option() {
    let lab = Lab::without_addresses(1);
    let host = &lab.hosts[0];
    host.ip("addr flush dev lo\n");
    let (code, said) = refusal(host, &["--bind", "0.0.0.0:7480"]);
    assert!(code == Some(1) || code == Some(78), "{code:?} {said}");
    assert!(said.contains("--advertise"), "{said}");
    assert!(!said.contains("panicked"), "{said}");
}

/// hashicorp/consul#9241, #15823: the wildcard itself was told to others, which then sent to it.
pub fn a_wildcard_is_never_advertised() {
    for (bind, expected) in [("0.0.0.0:7480", "10.77.0."), ("[::]:7480", "[fd77::")] {
        let mut lab = Lab::new(2);
        let first = if bind.starts_with('[') {
            "[fd77::1]:7480"
        } else {
            "10.77.0.1"
        };
        lab.hosts[0].start("n1", &["--bind", bind]);
        lab.hosts[1].start("n2", &["--bind", bind, "--join", first]);
        all_alive(&lab);
        for host in &lab.hosts {
            let table = host.table();
            for name in ["n1", "n2"] {
                let address = member(&table, name)["address"].as_str().unwrap_or("none");
                assert!(address.starts_with(expected), "{name} {address}");
            }
        }
    }
    let lab = Lab::new(1);
    let (code, said) = refusal(&lab.hosts[0], &["--advertise", "0.0.0.0:7480"]);
    assert_ne!(code, Some(0));
    assert!(said.contains("advertise"), "{said}");
}

/// hashicorp/consul#3843: the port that others see is not the bound one, as with containers.
pub fn an_advertised_port_may_differ_from_the_bound_one() {
    let mut lab = Lab::new(3);
    // Nothing reaches the bound port but what was sent to the public one, and answers.
    lab.hosts[0].nft(
        "table ip mapping {\n\
         chain to_agent { type nat hook prerouting priority -100; policy accept;\n\
         udp dport 17480 redirect to :7480\ntcp dport 17480 redirect to :7480\n}\n\
         chain arriving { type filter hook input priority 0; policy accept;\n\
         ct status dnat accept\n\
         meta l4proto { udp, tcp } th dport 7480 ct state new drop\n}\n}\n",
    );
    let public = format!("{}:17480", v4(1));
    lab.hosts[0].start("n1", &["--advertise", &public]);
    for number in [2, 3] {
        let name = format!("n{number}");
        lab.hosts[number - 1].start(&name, &["--join", &public]);
    }
    all_alive(&lab);
    for host in &lab.hosts {
        assert_eq!(member(&host.table(), "n1")["address"], public.as_str());
    }
    nobody_dies(&lab);
    // Also after a restart, when it is the one that asks the others.
    let second = v4(2).to_string();
    lab.hosts[0].kill();
    lab.hosts[0].start("n1", &["--advertise", &public, "--join", &second]);
    all_alive(&lab);
    nobody_dies(&lab);
}
