//! The agent's settings, from one definition.
//!
//! A table of keys ([`keys`]) says once what can be set. Flags, environment variables, the file,
//! the commented default file and the text of `--help` are all read off that table, so that none
//! can lack a key or describe another default. A flag wins over an environment variable, that
//! over the file, and that over the default. The profile is applied before the protocol keys,
//! whatever source they come from.

mod check;
mod choices;
mod environment;
mod error;
mod file;
mod flags;
mod given;
mod keys;
mod render;
mod suggest;
mod targets;
mod values;

use std::ffi::OsString;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::time::Duration;

use crate::member::{NodeName, Service, Tags};
use crate::node::DEFAULT_GOSSIP_PORT;
use crate::protocol::Config;

use super::outbox::Target;

pub use choices::{HttpWrites, LogFormat, Profile};
pub use error::SettingsError;
pub use flags::Flags;
pub use keys::{Key, Kind, all as keys};
pub use render::default_file;

use given::Given;

/// Port of the HTTP interface where nothing else is said.
const DEFAULT_HTTP_PORT: u16 = 7481;

/// Everything the agent is told by its operator, checked.
#[derive(Clone, Debug, PartialEq)]
pub struct Settings {
    /// The file that was read.
    pub config: Option<PathBuf>,
    /// The member's name.
    pub name: NodeName,
    /// The cluster's name, by the rules of member names.
    pub cluster: String,
    /// Where gossip listens, UDP and TCP on the same port; port 0 takes any free one.
    pub bind: SocketAddr,
    /// What other members are told; detected where absent.
    pub advertise: Option<SocketAddr>,
    /// Addresses or DNS names to join through, each `host[:port]` or the `_name` of a service.
    pub join: Vec<String>,
    /// Where HTTP listens; absent when it is off.
    pub http: Option<SocketAddr>,
    /// Whether HTTP may change anything.
    pub http_writes: HttpWrites,
    /// Where state is kept; absent: in memory only.
    pub data_dir: Option<PathBuf>,
    /// The preset that `protocol` started from.
    pub profile: Profile,
    /// Labels of this member.
    pub tags: Tags,
    /// Services of this member, sorted by name.
    pub services: Vec<Service>,
    /// How log lines look.
    pub log_format: LogFormat,
    /// Directives of the log filter, such as `info` or `info,rumord::node=debug`.
    pub log_level: String,
    /// How long leaving may take. At most 10 minutes.
    pub leave_timeout: Duration,
    /// Who is told of events.
    pub targets: Vec<Target>,
    /// Parameters of the protocol core.
    pub protocol: Config,
}

impl Settings {
    /// The defaults under `profile`; the name is a placeholder.
    fn preset(profile: Profile) -> Self {
        Settings {
            config: None,
            name: NodeName::from_bytes(b"unnamed").expect("a constant that is a valid name"),
            cluster: "default".into(),
            bind: SocketAddr::from(([0, 0, 0, 0], DEFAULT_GOSSIP_PORT)),
            advertise: None,
            join: Vec::new(),
            http: Some(SocketAddr::from(([127, 0, 0, 1], DEFAULT_HTTP_PORT))),
            http_writes: HttpWrites::Auto,
            data_dir: None,
            profile,
            tags: Tags::new(),
            services: Vec::new(),
            log_format: LogFormat::Auto,
            log_level: "info".into(),
            leave_timeout: Duration::from_secs(5),
            targets: Vec::new(),
            protocol: profile.config(),
        }
    }

    /// Reads flags, environment (`env` looks a variable up) and the file that they name, and
    /// checks the sum.
    ///
    /// # Errors
    /// The first wrong value of the environment, else of the file, else the first contradiction
    /// between values. A flag's value was checked when it was parsed.
    pub fn load(
        flags: &Flags,
        env: impl Fn(&str) -> Option<OsString>,
    ) -> Result<Settings, SettingsError> {
        let given = environment::read(env)?.overridden_by(flags.given()?);
        let given = match given.first("config") {
            Some(path) => file::read(Path::new(&path.text))?.overridden_by(given),
            None => given,
        };
        let mut settings = assemble(&given)?;
        if given.first("name").is_none() {
            settings.name = host_name()?;
        }
        Ok(settings)
    }
}

/// Reads the file at `path` alone, and checks it. The name of a file that gives none is a
/// placeholder, so that a file can be checked on another machine than the one it is for.
///
/// # Errors
/// The first wrong line, or the first contradiction between values.
pub fn check_file(path: impl AsRef<Path>) -> Result<Settings, SettingsError> {
    assemble(&file::read(path.as_ref())?)
}

fn assemble(given: &Given) -> Result<Settings, SettingsError> {
    let settings = given.apply()?;
    check::sum(&settings, given)?;
    Ok(settings)
}

/// The host's name as a member name.
fn host_name() -> Result<NodeName, SettingsError> {
    let text = std::fs::read_to_string("/proc/sys/kernel/hostname")
        .map_err(|error| SettingsError::host(format!("the host name cannot be read ({error})")))?;
    let text = text.trim_end();
    text.parse()
        .map_err(|_| SettingsError::host(format!("the host name {text:?} is no member name")))
}

#[cfg(test)]
mod tests;
