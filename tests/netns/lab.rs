//! A network: hosts on one Ethernet segment, each a network namespace, and a hub between them.
//!
//! A namespace lives as long as the process that holds it, and that one as long as the pipe to it:
//! nothing is left behind, however the test ends.

use std::fmt::Write as _;
use std::fs::File;
use std::io::{BufRead, BufReader};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::os::fd::AsFd;
use std::panic::resume_unwind;
use std::process::{Child, Stdio};
use std::thread;

use rustix::thread::{LinkNameSpaceType, move_into_link_name_space};

use crate::host::Host;
use crate::tools;

/// The longest path of a test's hosts to each other: numbers from 1 to this.
const HOSTS_MAX: usize = 200;

/// A network namespace.
pub struct Space {
    holder: Child,
    net: File,
}

impl Space {
    /// A new one, with nothing but its loopback interface.
    fn new() -> Self {
        let mut holder = tools::command("unshare")
            .args([
                "--net",
                "--",
                "sh",
                "-c",
                "ip link set lo up && echo up && exec cat",
            ])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .expect("`unshare` starts");
        let stdout = holder.stdout.as_mut().expect("it is piped");
        let mut line = String::new();
        BufReader::new(stdout)
            .read_line(&mut line)
            .expect("it writes");
        assert_eq!(line, "up\n", "a network namespace");
        let net = File::open(format!("/proc/{}/ns/net", holder.id())).expect("it runs");
        Space { holder, net }
    }

    /// The process that holds it.
    fn pid(&self) -> u32 {
        self.holder.id()
    }

    /// Does `work` inside it. Processes that `work` starts stay inside.
    pub fn inside<T: Send>(&self, work: impl FnOnce() -> T + Send) -> T {
        let name = thread::current().name().unwrap_or("inside").to_owned();
        thread::scope(|scope| {
            let worker = thread::Builder::new().name(name).spawn_scoped(scope, || {
                move_into_link_name_space(self.net.as_fd(), Some(LinkNameSpaceType::Network))
                    .expect("the namespace is ours");
                work()
            });
            match worker.expect("a thread").join() {
                Ok(done) => done,
                Err(panic) => resume_unwind(panic),
            }
        })
    }
}

impl Drop for Space {
    fn drop(&mut self) {
        // It may have ended already.
        let _ = self.holder.kill();
        let _ = self.holder.wait();
    }
}

/// Hosts, numbered from 1, on one segment.
pub struct Lab {
    /// The first is number 1.
    pub hosts: Vec<Host>,
    /// After the hosts: their agents end first.
    _hub: Space,
}

impl Lab {
    /// `count` hosts, each with the addresses of [`v4`] and [`v6`] of its number.
    pub fn new(count: usize) -> Self {
        let lab = Lab::without_addresses(count);
        thread::scope(|scope| {
            for (host, number) in lab.hosts.iter().zip(1..) {
                scope.spawn(move || {
                    host.ip(&format!(
                        "addr add {}/24 dev eth0\naddr add {}/64 dev eth0 nodad\n",
                        v4(number),
                        v6(number)
                    ));
                });
            }
        });
        lab
    }

    /// `count` hosts that are connected and have no addresses yet.
    pub fn without_addresses(count: usize) -> Self {
        assert!(count <= HOSTS_MAX);
        let hub = Space::new();
        let spaces: Vec<Space> = thread::scope(|scope| {
            let started: Vec<_> = (0..count).map(|_| scope.spawn(Space::new)).collect();
            let joined = started.into_iter().map(|space| space.join());
            joined.map(|space| space.expect("a namespace")).collect()
        });
        let mut script = String::from("link add hub type bridge\nlink set hub up\n");
        for (space, number) in spaces.iter().zip(1..) {
            let _ = write!(
                script,
                "link add v{number} type veth peer name eth0 netns {}\n\
                 link set v{number} master hub up\n",
                space.pid()
            );
        }
        hub.inside(|| tools::run("ip", &["-batch", "-"], &script));
        let hosts: Vec<Host> = spaces.into_iter().map(Host::new).collect();
        hosts.iter().for_each(|host| host.ip("link set eth0 up\n"));
        Lab { hosts, _hub: hub }
    }

    /// Does `work` on all hosts at the same time.
    pub fn on_all<T: Send>(&self, work: impl Fn(&Host) -> T + Sync) -> Vec<T> {
        on_all(&self.hosts, work)
    }
}

/// Does `work` on `hosts` at the same time.
pub fn on_all<T: Send>(hosts: &[Host], work: impl Fn(&Host) -> T + Sync) -> Vec<T> {
    let name = thread::current().name().unwrap_or("on all").to_owned();
    let work = &work;
    thread::scope(|scope| {
        let workers: Vec<_> = hosts
            .iter()
            .map(|host| {
                let builder = thread::Builder::new().name(name.clone());
                let worker = builder.spawn_scoped(scope, move || work(host));
                worker.expect("a thread")
            })
            .collect();
        let joined = workers.into_iter().map(|worker| worker.join());
        joined
            .map(|done| done.unwrap_or_else(|panic| resume_unwind(panic)))
            .collect()
    })
}

/// The IPv4 address of a host, and of a later life of it with another address above 100.
pub fn v4(number: usize) -> IpAddr {
    let number = u8::try_from(number).expect("few hosts");
    Ipv4Addr::new(10, 77, 0, number).into()
}

/// The unique local IPv6 address of a host.
pub fn v6(number: usize) -> IpAddr {
    let number = u16::try_from(number).expect("few hosts");
    Ipv6Addr::new(0xfd77, 0, 0, 0, 0, 0, 0, number).into()
}
