//! `rumord service`: services that this node offers.

use std::time::Duration;

use clap::{Args, Subcommand};
use serde_json::json;

use super::client::Target;
use super::tags::parse_tags;
use super::{Failure, print};
use crate::member::NodeName;

/// How long the daemon may take.
const WAIT: Duration = Duration::from_secs(30);

/// Commands below `rumord service`.
#[derive(Subcommand, Debug)]
pub(super) enum Command {
    /// Offer a service, or replace it; it lasts until the daemon ends
    Add(AddArguments),
    /// Stop offering a service
    Remove(RemoveArguments),
}

/// Arguments of `rumord service add`.
#[derive(Args, Debug)]
pub(super) struct AddArguments {
    #[command(flatten)]
    target: Target,
    /// Its name, by the rules of member names
    name: NodeName,
    /// The port it listens on, on the address of this node
    #[arg(long, value_parser = clap::value_parser!(u16).range(1..))]
    port: u16,
    /// A tag of the service; repeatable
    #[arg(long, value_name = "K=V")]
    tag: Vec<String>,
}

/// Arguments of `rumord service remove`.
#[derive(Args, Debug)]
pub(super) struct RemoveArguments {
    #[command(flatten)]
    target: Target,
    /// Its name
    name: NodeName,
}

/// Changes the services and says what was done.
pub(super) fn run(command: &Command) -> Result<(), Failure> {
    match command {
        Command::Add(arguments) => add(arguments),
        Command::Remove(arguments) => remove(arguments),
    }
}

fn add(arguments: &AddArguments) -> Result<(), Failure> {
    let (name, port) = (&arguments.name, arguments.port);
    let body = json!({ "port": port, "tags": parse_tags(&arguments.tag)? });
    let client = arguments.target.client()?;
    let answer = client.put(&path(name), &body, None, WAIT)?.done()?;
    let done = if answer.status == 201 {
        "added"
    } else {
        "replaced"
    };
    print(&format!("service {name} on port {port} {done}\n"))
}

fn remove(arguments: &RemoveArguments) -> Result<(), Failure> {
    let name = &arguments.name;
    let client = arguments.target.client()?;
    client.delete(&path(name), WAIT)?.done()?;
    print(&format!("service {name} removed\n"))
}

/// A name has no byte that a URL would spell otherwise.
fn path(name: &NodeName) -> String {
    format!("/v1/self/services/{name}")
}
