//! `exchange`.

use std::io::Write;

use clap::{Args, value_parser};

use super::Trouble;
use crate::pair::{Spent, WINDOW, exchange};

/// Bytes that equal tables may cost in a probe period.
const QUIET_BYTES_MAX: u64 = 64;
/// Bytes of the fingerprint and the flags in a ping or an ack.
const FINGERPRINT_BYTES: u64 = 9;
/// Records that an exchange may tell for each that differs, and some more besides: both sides tell
/// theirs.
const RECORDS_FACTOR: usize = 3;
const RECORDS_MORE: usize = 8;

#[derive(Debug, Args)]
pub struct ExchangeArguments {
    /// Records in each table
    #[arg(long, default_value_t = 1000, value_parser = value_parser!(u32).range(3..=50_000))]
    members: u32,
    /// Records that differ
    #[arg(long, value_delimiter = ',', default_values_t = [0, 1, 10, 100, 1000])]
    differing: Vec<u32>,
}

/// Plays two members whose tables differ, and tells what they say to each other.
pub fn exchange_tables(arguments: &ExchangeArguments, out: &mut impl Write) -> Result<(), Trouble> {
    let members = arguments.members as usize;
    writeln!(out, "two members with {members} records each")?;
    writeln!(
        out,
        "{:>9} {:>8} {:>8} {:>10} {:>8} {:>8} {:>9} {:>10}",
        "differing", "records", "digest", "difference", "delta", "bytes", "equal", "whole"
    )?;
    for &differing in &arguments.differing {
        let differing = (differing as usize).min(members - 2);
        let spent = exchange(members, differing);
        tell(differing, &spent, out)?;
        judge(differing, &spent)?;
    }
    writeln!(
        out,
        "bytes without IP, UDP and TCP headers; whole: both tables in full, one exchange"
    )?;
    Ok(())
}

fn tell(differing: usize, spent: &Spent, out: &mut impl Write) -> Result<(), Trouble> {
    let of = |kind: &str| spent.bytes.get(kind).copied().unwrap_or_default();
    let equal = spent.equal_after.map_or("never".to_owned(), |length| {
        format!("{:.2} s", length.as_secs_f64())
    });
    writeln!(
        out,
        "{differing:>9} {:>8} {:>8} {:>10} {:>8} {:>8} {equal:>9} {:>10}",
        spent.records,
        of("digest"),
        of("difference"),
        of("delta"),
        spent.exchange_bytes(),
        spent.whole_tables
    )?;
    if differing == 0 {
        writeln!(out, "          in a period: {} bytes", quiet_bytes(spent))?;
    }
    Ok(())
}

/// What two members with equal tables say about them in a probe period.
fn quiet_bytes(spent: &Spent) -> u64 {
    let of = |kind: &str| spent.messages.get(kind).copied().unwrap_or_default();
    let carried = (of("ping") + of("ack")) * FINGERPRINT_BYTES + spent.exchange_bytes();
    carried.div_ceil(WINDOW.as_secs())
}

fn judge(differing: usize, spent: &Spent) -> Result<(), Trouble> {
    let broken = if differing == 0 && quiet_bytes(spent) > QUIET_BYTES_MAX {
        format!("{} bytes a period between equal tables", quiet_bytes(spent))
    } else if spent.equal_after.is_none() {
        format!("{differing} differing: the tables stay different")
    } else if spent.records > RECORDS_FACTOR * differing + RECORDS_MORE {
        format!("{differing} differing: {} records were told", spent.records)
    } else {
        return Ok(());
    };
    Err(Trouble::Broken(broken))
}
