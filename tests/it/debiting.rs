//! The example of a consumer, killed at any point.

use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::Duration;

use crate::agent::{Agent, poll};
use crate::debit::{Account, follow};
use crate::stores::Dir;

const AGENT: &str = "DEBIT_TEST_AGENT";
const DATABASE: &str = "DEBIT_TEST_DATABASE";

/// Charges that are sent, each of another amount.
const CHARGES: i64 = 40;
/// How often the consumer is killed.
const KILLS: u64 = 25;

/// The consumer as a process of its own: the other test runs it.
#[test]
#[ignore = "is the process that another test kills"]
fn the_consumer_itself() {
    let (Ok(agent), Ok(database)) = (std::env::var(AGENT), std::env::var(DATABASE)) else {
        return;
    };
    follow(&agent, Path::new(&database)).expect("it never ends by itself");
}

fn consumer(agent: &Agent, database: &str) -> Child {
    let program = std::env::current_exe().expect("it runs");
    Command::new(program)
        .args(["--exact", "debiting::the_consumer_itself", "--ignored"])
        .env(AGENT, format!("http://{}", agent.http))
        .env(DATABASE, database)
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .expect("it starts")
}

fn charge(agent: &Agent, amount: i64) {
    let (payload, key) = (amount.to_string(), format!("order-{amount}"));
    // A client that does not know whether it was heard says it again.
    for _ in 0..2 {
        let sent = agent.command(&["event", "charge", &payload, "--key", &key]);
        assert!(
            sent.status.success(),
            "{}",
            String::from_utf8_lossy(&sent.stderr)
        );
    }
}

#[test]
fn a_consumer_that_is_killed_at_any_point_debits_each_charge_once() {
    let dir = Dir::new();
    let database = dir.data("account.db");
    let agent = Agent::start("n1", &["--data-dir", &dir.data("n1")]);
    drop(Account::open(Path::new(&database)).expect("a fresh file"));
    thread::scope(|scope| {
        scope.spawn(|| (1..=CHARGES).for_each(|amount| charge(&agent, amount)));
        for kill in 0..KILLS {
            let mut child = consumer(&agent, &database);
            // Moments that fall before, within and after its work, the same in every run.
            thread::sleep(Duration::from_millis(5 + kill * 37 % 101));
            child.kill().expect("ours");
            child.wait().expect("it was killed");
        }
    });
    let mut child = consumer(&agent, &database);
    let owed = -CHARGES * (CHARGES + 1) / 2;
    let account = Account::open(Path::new(&database)).expect("it is there");
    poll("every charge is debited", || {
        let balance = account.balance().ok()?;
        assert!(
            balance >= owed,
            "{balance} of {owed}: something was debited twice"
        );
        (balance == owed).then_some(())
    });
    child.kill().expect("ours");
    child.wait().expect("it was killed");
    let cursor = account.cursor().expect("readable");
    let last = format!("/v1/events/{cursor}");
    assert_eq!(agent.get(&last).map(|answer| answer.status), Some(200));
}
