//! A service that debits an account for each event `charge`, once, whatever happens.
//!
//! ```text
//! cargo run --example debit -- --database account.db
//! rumord event charge 250 --key order-1001
//! ```
//!
//! The agent delivers at least once: a reader that asks again after a crash sees events again. What
//! makes the effect happen once is that cursor and effect are one transaction of this service's own
//! database: either both are there, and the event is not asked for again, or neither is, and it is.
//! An event is also known by its `uid`, so that the same one, read through another agent or after
//! the log was reset, is not charged twice.

use std::error::Error;
use std::path::{Path, PathBuf};
use std::time::Duration;

use rusqlite::{Connection, Transaction, params};
use serde_json::Value;

/// How long the agent may hold a read that finds nothing new.
const WAIT: Duration = Duration::from_secs(10);
/// Pause before an agent that cannot be reached is asked again.
const RETRY: Duration = Duration::from_millis(200);
/// Events of one read.
const LIMIT: usize = 100;

const TABLES: &str = "
    create table if not exists account (
        only integer primary key check (only = 0),
        balance integer not null,
        cursor integer not null
    ) strict;
    create table if not exists charge (
        uid text primary key,
        amount integer not null
    ) strict, without rowid;
    insert into account (only, balance, cursor) values (0, 0, 0) on conflict do nothing;
";

/// An account in a file.
pub struct Account(Connection);

impl Account {
    /// Opens it, with a balance of 0 where it is new.
    pub fn open(path: &Path) -> rusqlite::Result<Self> {
        let connection = Connection::open(path)?;
        connection.pragma_update(None, "journal_mode", "wal")?;
        connection.pragma_update(None, "synchronous", "full")?;
        connection.execute_batch(TABLES)?;
        Ok(Account(connection))
    }

    /// What is left.
    pub fn balance(&self) -> rusqlite::Result<i64> {
        let query = "select balance from account";
        self.0.query_row(query, [], |row| row.get(0))
    }

    /// The last event that was looked at.
    pub fn cursor(&self) -> rusqlite::Result<u64> {
        let query = "select cursor from account";
        let cursor = self.0.query_row(query, [], |row| row.get::<_, i64>(0))?;
        Ok(cursor.cast_unsigned())
    }

    /// Takes in a page of the log: its charges and the new cursor, together or not at all.
    pub fn apply(&mut self, events: &[Value], next: u64) -> rusqlite::Result<()> {
        let transaction = self.0.transaction()?;
        for event in events {
            if let Some((uid, amount)) = charge(event) {
                debit(&transaction, uid, amount)?;
            }
        }
        let next = next.cast_signed();
        transaction.execute("update account set cursor = ?1", [next])?;
        transaction.commit()
    }
}

fn debit(transaction: &Transaction<'_>, uid: &str, amount: i64) -> rusqlite::Result<()> {
    let charged = transaction.execute(
        "insert into charge (uid, amount) values (?1, ?2) on conflict do nothing",
        params![uid, amount],
    )?;
    if charged == 1 {
        transaction.execute("update account set balance = balance - ?1", [amount])?;
    }
    Ok(())
}

/// The identity and amount of an event that is a charge; what is none is nobody's debt.
fn charge(event: &Value) -> Option<(&str, i64)> {
    let field = |name: &str| event.get(name)?.as_str();
    let is_charge = field("kind") == Some("user") && field("name") == Some("charge");
    let amount = field("payload")?.trim().parse().ok()?;
    is_charge.then_some((field("uid")?, amount))
}

/// Debits for ever.
pub fn follow(agent: &str, database: &Path) -> Result<(), Box<dyn Error>> {
    let mut account = Account::open(database)?;
    loop {
        match page(agent, account.cursor()?) {
            Ok((events, next)) => account.apply(&events, next)?,
            Err(error) => {
                eprintln!("debit: {error}; trying again");
                std::thread::sleep(RETRY);
            }
        }
    }
}

/// What the log has after `cursor`, as soon as there is something, and the cursor after that.
fn page(agent: &str, cursor: u64) -> Result<(Vec<Value>, u64), Box<dyn Error>> {
    let wait = WAIT.as_secs();
    let url = format!("{agent}/v1/events?after={cursor}&limit={LIMIT}&wait={wait}s");
    let text = ureq::get(url).call()?.body_mut().read_to_string()?;
    let mut page: Value = serde_json::from_str(&text)?;
    if let Some(reason) = page.get("reset").and_then(Value::as_str) {
        // Nothing is charged twice; whether something was missed is for a person to find out.
        eprintln!("debit: the log of the agent was reset ({reason})");
    }
    let next = page.get("next").and_then(Value::as_u64);
    let events = match page.get_mut("events").map(Value::take) {
        Some(Value::Array(events)) => events,
        _ => return Err("the answer is no page of events".into()),
    };
    Ok((events, next.ok_or("the answer names no cursor")?))
}

fn main() -> Result<(), Box<dyn Error>> {
    let mut agent = "http://127.0.0.1:7481".to_owned();
    let mut database = PathBuf::from("account.db");
    let mut words = std::env::args().skip(1);
    while let Some(word) = words.next() {
        let value = words.next().ok_or("each flag needs a value")?;
        match word.as_str() {
            "--http" => agent = value,
            "--database" => database = value.into(),
            _ => return Err(format!("{word}: unknown; give --http URL or --database FILE").into()),
        }
    }
    follow(&agent, &database)
}
