//! `rumord dev`: a cluster of real nodes on this machine, one process each, to see it live.

mod child;
mod cluster;
mod follow;

use std::net::SocketAddr;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread;
use std::time::SystemTime;

use clap::Args;
use tokio::signal::unix::{SignalKind, signal};

use self::cluster::Cluster;
use self::follow::Follower;
use super::api::Table;
use super::{EXIT_FAILED, Failure, print, table};

/// Arguments of `rumord dev`.
#[derive(Args, Debug)]
pub(super) struct Arguments {
    /// How many nodes, 1 to 100
    #[arg(long, value_name = "N", default_value_t = 5)]
    #[arg(value_parser = clap::value_parser!(u16).range(1..=100))]
    nodes: u16,
    /// HTTP address of the first node; the others take free ports
    #[arg(long, value_name = "ADDR:PORT", default_value = "127.0.0.1:7481")]
    http: SocketAddr,
}

/// What the loop below waits for.
enum Happening {
    /// A child said that it serves, or what it said instead.
    Said { child: usize, line: String },
    /// A child's stdout ended: it exits.
    Ended { child: usize },
    /// The member table changed.
    Changed(Table),
    /// The user has seen enough.
    Interrupted,
}

/// Runs the cluster until Ctrl-C, or until no child is left.
pub(super) fn run(arguments: &Arguments) -> Result<(), Failure> {
    let (happens, happenings) = channel();
    watch_signals(happens.clone())?;
    let mut cluster = Cluster::default();
    // Whatever goes wrong, the cluster's end takes every child with it.
    let outcome = start_and_show(arguments, &mut cluster, &happens, &happenings);
    let ended = cluster.end();
    match outcome {
        Ok(End::Interrupted) => print(&ended),
        Ok(End::NobodyLeft) => Err(Failure::new(EXIT_FAILED, "every node has exited")),
        Err(failure) => Err(failure),
    }
}

enum End {
    Interrupted,
    NobodyLeft,
}

fn start_and_show(
    arguments: &Arguments,
    cluster: &mut Cluster,
    happens: &Sender<Happening>,
    happenings: &Receiver<Happening>,
) -> Result<End, Failure> {
    if !cluster.start(arguments.nodes, arguments.http, happens, happenings)? {
        return Ok(End::Interrupted);
    }
    print(&cluster.introduction())?;
    let follower = Follower::start(cluster.clients(), happens.clone())?;
    for happening in happenings {
        match happening {
            Happening::Interrupted => return Ok(End::Interrupted),
            Happening::Changed(table) => print(&stamped(&table::members(&table)))?,
            Happening::Ended { child } => {
                follower.forget(child);
                print(&stamped(&cluster.reap(child)))?;
                if cluster.is_empty() {
                    return Ok(End::NobodyLeft);
                }
            }
            Happening::Said { .. } => {}
        }
    }
    Ok(End::NobodyLeft)
}

/// `text` under the time.
fn stamped(text: &str) -> String {
    let now = humantime::format_rfc3339_seconds(SystemTime::now());
    format!("{now}\n{text}\n")
}

/// Tells of SIGINT and SIGTERM, from a thread of its own.
fn watch_signals(happens: Sender<Happening>) -> Result<(), Failure> {
    let refuse = |error| Failure::new(EXIT_FAILED, format!("cannot listen for Ctrl-C ({error})"));
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_io()
        .build()
        .map_err(refuse)?;
    let (mut interrupt, mut terminate) = {
        let _inside = runtime.enter();
        let listen = |kind| signal(kind).map_err(refuse);
        (
            listen(SignalKind::interrupt())?,
            listen(SignalKind::terminate())?,
        )
    };
    let watch = move || {
        runtime.block_on(async {
            loop {
                tokio::select! {
                    _ = interrupt.recv() => {}
                    _ = terminate.recv() => {}
                }
                if happens.send(Happening::Interrupted).is_err() {
                    return;
                }
            }
        });
    };
    thread::Builder::new()
        .name("signals".into())
        .spawn(watch)
        .map_err(refuse)?;
    Ok(())
}
