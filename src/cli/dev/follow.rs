//! Follows the member table as the first living node sees it.

use std::collections::BTreeMap;
use std::sync::mpsc::Sender;
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;
use std::time::Duration;

use super::Happening;
use crate::cli::client::Client;
use crate::cli::{EXIT_FAILED, Failure};

/// How long one blocking read waits; also how long a stopped node holds the view up.
const READ_WAIT: Duration = Duration::from_secs(5);
/// Pause after a failed read.
const RETRY_PAUSE: Duration = Duration::from_millis(100);

/// Names the nodes that may be asked. The thread ends when none is left.
pub(super) struct Follower {
    clients: Arc<Mutex<BTreeMap<usize, Client>>>,
}

impl Follower {
    /// Starts following.
    ///
    /// # Errors
    /// The system gave no thread.
    pub(super) fn start(
        clients: BTreeMap<usize, Client>,
        happens: Sender<Happening>,
    ) -> Result<Self, Failure> {
        let clients = Arc::new(Mutex::new(clients));
        let shared = clients.clone();
        let spawned = thread::Builder::new().name("follow".into()).spawn(move || {
            follow(&shared, &happens);
        });
        spawned
            .map(|_| Follower { clients })
            .map_err(|error| Failure::new(EXIT_FAILED, format!("cannot start a thread ({error})")))
    }

    /// Stops asking a node that has exited.
    pub(super) fn forget(&self, child: usize) {
        self.clients
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .remove(&child);
    }
}

fn first(clients: &Mutex<BTreeMap<usize, Client>>) -> Option<(usize, Client)> {
    let clients = clients.lock().unwrap_or_else(PoisonError::into_inner);
    clients
        .first_key_value()
        .map(|(number, client)| (*number, client.clone()))
}

fn follow(clients: &Mutex<BTreeMap<usize, Client>>, happens: &Sender<Happening>) {
    // Each node counts changes for itself, so another node is asked from the start.
    let mut seen = (0, 0);
    while let Some((number, client)) = first(clients) {
        let after = if seen.0 == number { seen.1 } else { 0 };
        match client.table(after, READ_WAIT) {
            Ok(table) => {
                let index = table.index;
                if index != after && happens.send(Happening::Changed(table)).is_err() {
                    return;
                }
                seen = (number, index);
            }
            Err(_) => thread::sleep(RETRY_PAUSE),
        }
    }
}
