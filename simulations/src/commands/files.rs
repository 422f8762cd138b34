//! Files that commands write into the directory of `--out`.

use std::fs;
use std::path::{Path, PathBuf};

use super::Trouble;

/// Writes `text` to the file `name` in `directory`, which is made where it is missing; nothing
/// without a directory.
pub fn write(directory: Option<&Path>, name: &str, text: &str) -> Result<(), Trouble> {
    let Some(directory) = directory else {
        return Ok(());
    };
    let told = |path: &Path| {
        let path: PathBuf = path.to_owned();
        move |error| Trouble::File(path, error)
    };
    fs::create_dir_all(directory).map_err(told(directory))?;
    let path = directory.join(name);
    fs::write(&path, text).map_err(told(&path))
}

/// One value per line.
pub fn lines(values: &[serde_json::Value]) -> String {
    values.iter().map(|value| format!("{value}\n")).collect()
}

/// Reads a file.
pub fn read(path: &Path) -> Result<String, Trouble> {
    fs::read_to_string(path).map_err(|error| Trouble::File(path.to_owned(), error))
}
