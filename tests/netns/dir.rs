//! A directory for the files of one test.

use std::path::PathBuf;
use std::sync::atomic::{AtomicUsize, Ordering};

static NEXT: AtomicUsize = AtomicUsize::new(0);

/// An empty directory, removed with what is in it when dropped.
pub struct Dir(PathBuf);

impl Dir {
    /// A new one.
    pub fn new() -> Self {
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        let name = format!("rumord-netns-{}-{number}", std::process::id());
        let path = std::env::temp_dir().join(name);
        std::fs::create_dir_all(&path).expect("the temporary directory is writable");
        Dir(path)
    }

    /// The path of `name` inside it.
    pub fn path(&self, name: &str) -> String {
        let path = self.0.join(name);
        path.to_str().expect("a plain path").to_owned()
    }
}

impl Drop for Dir {
    fn drop(&mut self) {
        // What cannot be removed stays in the temporary directory.
        let _ = std::fs::remove_dir_all(&self.0);
    }
}
