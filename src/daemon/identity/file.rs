//! The identity file: read with suspicion, replaced as a whole.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use super::IdentityError;

/// What is kept.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Record {
    /// The cluster's name at the last start.
    pub cluster: String,
    /// The node's id.
    pub node_id: u64,
    /// The generation last started, or raised to.
    pub generation: u64,
}

/// The record as it stands in the file.
#[derive(Serialize, Deserialize)]
struct Json {
    cluster: String,
    /// 16 hexadecimal digits: larger than what other JSON readers hold exactly.
    node_id: String,
    generation: u64,
}

/// Reads the record at `path`; none where there is no file.
pub(super) fn read(path: &Path) -> Result<Option<Record>, IdentityError> {
    let bytes = match fs::read(path) {
        Ok(bytes) => bytes,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        Err(source) => {
            return Err(IdentityError::File {
                path: path.into(),
                source,
            });
        }
    };
    let corrupt = |reason| IdentityError::Corrupt {
        path: path.into(),
        reason,
    };
    parse(&bytes).map(Some).map_err(corrupt)
}

fn parse(bytes: &[u8]) -> Result<Record, String> {
    let json: Json = serde_json::from_slice(bytes).map_err(|error| error.to_string())?;
    let digits = json.node_id.len() == 16 && json.node_id.bytes().all(|b| b.is_ascii_hexdigit());
    let node_id = u64::from_str_radix(&json.node_id, 16)
        .ok()
        .filter(|_| digits);
    Ok(Record {
        cluster: json.cluster,
        node_id: node_id.ok_or("node_id must be 16 hexadecimal digits")?,
        generation: json.generation,
    })
}

/// Replaces the file at `path`, so that a reader finds the old record or the new one whatever
/// happens meanwhile, and the new one once this has returned.
pub(super) fn write(path: &Path, record: &Record) -> io::Result<()> {
    let json = Json {
        cluster: record.cluster.clone(),
        node_id: format!("{:016x}", record.node_id),
        generation: record.generation,
    };
    let mut bytes = serde_json::to_vec(&json)?;
    bytes.push(b'\n');
    let temporary = temporary(path);
    write_through(&temporary, &bytes)?;
    fs::rename(&temporary, path)?;
    // The rename itself is durable only once the directory is.
    path.parent()
        .map_or(Ok(()), |dir| File::open(dir)?.sync_all())
}

fn write_through(path: &Path, bytes: &[u8]) -> io::Result<()> {
    let mut options = OpenOptions::new();
    let mut file = options
        .create(true)
        .write(true)
        .truncate(true)
        .mode(0o600)
        .open(path)?;
    file.write_all(bytes)?;
    file.sync_all()
}

/// Beside the file, so that the rename stays within one file system. One name for all writes: what
/// a killed process left is overwritten by the next.
pub(super) fn temporary(path: &Path) -> PathBuf {
    path.with_extension("json.new")
}
