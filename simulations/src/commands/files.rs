//! Files that commands write into the directory of `--out`.

use std::fs;
use std::io::Write;
use std::path::{Path, PathBuf};

use super::Trouble;

/// Makes `directory` where it is missing: who cannot write there should not learn it after hours.
pub fn prepare(directory: Option<&Path>) -> Result<(), Trouble> {
    directory.map_or(Ok(()), |path| fs::create_dir_all(path).map_err(told(path)))
}

/// Writes `text` to the file `name` in `directory`, which is made where it is missing; nothing
/// without a directory. The file is there whole or not at all, also when the process is killed.
pub fn write(directory: Option<&Path>, name: &str, text: &str) -> Result<(), Trouble> {
    let Some(directory) = directory else {
        return Ok(());
    };
    fs::create_dir_all(directory).map_err(told(directory))?;
    let (path, part) = (directory.join(name), directory.join(format!("{name}.part")));
    write_through(&part, text).map_err(told(&part))?;
    fs::rename(&part, &path).map_err(told(&path))
}

/// Returns when the disk has it, so that a rename cannot come before it.
fn write_through(path: &Path, text: &str) -> std::io::Result<()> {
    let mut file = fs::File::create(path)?;
    file.write_all(text.as_bytes())?;
    file.sync_all()
}

fn told(path: &Path) -> impl FnOnce(std::io::Error) -> Trouble {
    let path = path.to_owned();
    move |error| Trouble::File(path, error)
}

/// One value per line.
pub fn lines(values: &[serde_json::Value]) -> String {
    values.iter().map(|value| format!("{value}\n")).collect()
}

/// Reads a file.
pub fn read(path: &Path) -> Result<String, Trouble> {
    fs::read_to_string(path).map_err(told(path))
}

/// What a directory holds, sorted.
pub fn list(directory: &Path) -> Result<Vec<PathBuf>, Trouble> {
    let entries = fs::read_dir(directory).map_err(told(directory))?;
    let paths = entries.map(|entry| Ok(entry?.path()));
    let mut paths: Vec<PathBuf> = paths.collect::<Result<_, _>>().map_err(told(directory))?;
    paths.sort();
    Ok(paths)
}
