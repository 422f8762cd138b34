//! What a commit that failed may have left on the disk all the same: it was answered as failed,
//! so it is taken back before anything else is written.

use std::sync::Arc;

use rusqlite::Transaction;

use super::super::batch::Work;
use super::super::keys::Keyed;
use super::super::{call_rows, event_rows, key_rows};
use crate::member::UserEvent;

/// What is not known to be written, or not.
pub(super) struct Doubt {
    /// The first entry of the log.
    first: u64,
    copies: Vec<Arc<UserEvent>>,
    taken: Vec<Keyed>,
}

impl Doubt {
    /// What `work` leaves if its commit fails, and what an earlier one may have left.
    pub(super) fn of(work: &Work, first: u64, earlier: Option<Doubt>) -> Self {
        let mut doubt = Doubt {
            first,
            copies: work.copies.clone(),
            taken: work.taken.clone(),
        };
        if let Some(earlier) = earlier {
            doubt.first = doubt.first.min(earlier.first);
            doubt.copies.extend(earlier.copies);
            doubt.taken.extend(earlier.taken);
        }
        doubt
    }
}

/// Takes it back, within the transaction that writes on.
pub(super) fn undo(transaction: &Transaction, doubt: Option<&Doubt>) -> rusqlite::Result<()> {
    let Some(doubt) = doubt else {
        return Ok(());
    };
    event_rows::undo(transaction, doubt.first, &doubt.copies)?;
    call_rows::undo(transaction, doubt.first)?;
    doubt
        .taken
        .iter()
        .try_for_each(|keyed| key_rows::undo(transaction, keyed))
}
