//! One or two sentences that say why a member has its status, for whoever reads nothing else.

use std::fmt::Write;
use std::time::{Duration, SystemTime};

use super::super::super::event::timestamp;
use super::super::super::evidence::before;
use crate::member::Status;
use crate::node::{Explained, MemberView, Snapshot};
use crate::protocol::{CaseReport, Evidence, Explanation, ProbeReport, Refutation};

/// Own lateness is worth a word for so long.
const SICK_WITHIN: Duration = Duration::from_secs(60);
/// And from so much on.
const SICK_FROM: Duration = Duration::from_millis(200);
/// So is a refutation.
const REFUTED_WITHIN: Duration = Duration::from_secs(600);

/// Why `member` has the status that `snapshot` shows.
pub(super) fn of(snapshot: &Snapshot, member: &MemberView, known: Option<&Explained>) -> String {
    let mut text = verdict(snapshot, member, known);
    let Some(Explained { at, what }) = known else {
        return text;
    };
    if let Some(until) = member.maintenance_until {
        let until = timestamp(until);
        let _ = write!(
            text,
            " It has announced maintenance until {until}, and is not declared dead before."
        );
    }
    if let Some(last) = what.refutations.last() {
        let after = what.verdict.as_ref().is_none_or(|it| it.ago >= last.ago);
        if member.status == Status::Alive && last.ago <= REFUTED_WITHIN && after {
            let (status, at) = (last.lifted.as_str(), timestamp(before(*at, last.ago)));
            let how = refuted(last.how, last.by.as_ref().map(|name| name.as_str()));
            let _ = write!(text, " That it was {status} was refuted at {at}: {how}.");
        }
    }
    text.push_str(&own_fault(what, *at));
    text
}

fn verdict(snapshot: &Snapshot, member: &MemberView, known: Option<&Explained>) -> String {
    let (name, since) = (member.name.as_str(), timestamp(member.since));
    if member.local {
        let alone = match snapshot.node.isolated {
            true => " It gets no answer from anybody: the fault is its own or its network's.",
            false => "",
        };
        if known.is_some_and(|it| it.what.rule == "degraded") {
            return format!(
                "{name} is the node that was asked. The others have evicted it because most \
                 packets to or from it are lost; it comes back when it is answered again."
            );
        }
        return format!("{name} is the node that was asked.{alone}");
    }
    if member.stored {
        return format!(
            "{name} was known to an earlier run of this node, last at {since}; nothing has been \
             heard of it in this run."
        );
    }
    let Some(Explained { at, what }) = known else {
        return format!(
            "{name} is {} because others said so at {since}; this node does not ask it itself, \
             and who said so is not kept any more.",
            member.status.as_str()
        );
    };
    let status = member.status;
    match (&*what.rule, what.verdict.as_ref()) {
        ("isolated", _) => cut_off(name, what, *at),
        ("told", _) => told(name, member, what, *at),
        ("answered", _) => answered(name, what, *at),
        (_, Some(verdict)) => {
            let time = before(*at, verdict.ago);
            decided(name, status, &verdict.evidence, what, time)
        }
        (rule, None) => format!("{name} is {} by the rule {rule:?}.", status.as_str()),
    }
}

/// "I am the sick one."
fn cut_off(name: &str, what: &Explanation, at: SystemTime) -> String {
    let contact = match what.own.contact {
        Some(ago) => format!("since {}", timestamp(before(at, ago))),
        None => "ever".to_owned(),
    };
    format!(
        "{name} is unreachable, not known to be dead: this node has had no answer from anybody \
         {contact}, so the fault is its own or its network's. It tells nobody, and takes it back \
         at the first answer."
    )
}

fn told(name: &str, member: &MemberView, what: &Explanation, at: SystemTime) -> String {
    let who = what.told_by.as_ref().map_or("others", |by| by.as_str());
    let time = match what.rule_ago {
        Some(ago) => timestamp(before(at, ago)),
        None => timestamp(member.since),
    };
    let own = match (&what.case, member.status) {
        (Some(case), _) => format!(" This node's own case: {}.", weighed(case)),
        (None, Status::Left) => String::new(),
        (None, _) if what.probes.is_empty() => " This node has not asked it itself.".to_owned(),
        (None, _) => String::new(),
    };
    match member.status {
        Status::Left => format!("{name} has left on its own, as {who} said at {time}."),
        status => format!(
            "{name} is {} because {who} said so at {time}.{own}",
            status.as_str()
        ),
    }
}

fn answered(name: &str, what: &Explanation, at: SystemTime) -> String {
    let mut probes = what.probes.iter().rev();
    let trip = probes.find_map(|probe: &ProbeReport| probe.round_trip);
    let trip = trip.map_or_else(String::new, |trip| {
        format!(" after {:.1} ms", trip.as_secs_f64() * 1000.0)
    });
    let time = timestamp(before(at, what.rule_ago.unwrap_or_default()));
    let case = what.case.as_ref().map_or_else(String::new, |case| {
        format!(" Since then it is silent: {}.", weighed(case))
    });
    format!("{name} is alive: it last answered this node at {time}{trip}.{case}")
}

fn decided(
    name: &str,
    status: Status,
    evidence: &Evidence,
    what: &Explanation,
    time: SystemTime,
) -> String {
    if evidence.rule == "degraded" {
        return format!(
            "{name} is {}: this node evicted it at {} because most packets to or from it are lost, \
             as {} relays found (phi {:.1}). It comes back when it is answered again.",
            status.as_str(),
            timestamp(time),
            evidence.witnesses,
            evidence.phi
        );
    }
    let silence = evidence.silence.as_secs_f64();
    let mut text = format!(
        "{name} is {}: this node decided so at {} by the rule {:?}, after {silence:.1} s without \
         an answer",
        status.as_str(),
        timestamp(time),
        evidence.rule
    );
    if let Some(report) = &evidence.report {
        let _ = write!(text, "; {}", weighed(report));
    }
    text.push('.');
    if status == Status::Suspect {
        let tolerance = what.thresholds.pause_tolerance.as_secs_f64();
        let _ = write!(
            text,
            " Unless it answers it is declared dead {tolerance:.1} s after that."
        );
    }
    text
}

fn weighed(report: &CaseReport) -> String {
    let witnesses = match report.witness_count {
        0 => "nobody else could be asked".to_owned(),
        1 => "1 other that this node reaches gets no answer either".to_owned(),
        count => format!("{count} others that this node reaches get no answer either"),
    };
    format!(
        "{witnesses} (phi {:.1}; suspect from {:.1}, dead from {:.1})",
        report.phi, report.thresholds.phi_suspect, report.thresholds.phi_dead
    )
}

fn refuted(how: Refutation, by: Option<&str>) -> String {
    let other = by.unwrap_or("another member");
    match how {
        Refutation::Answered => "it answered this node".to_owned(),
        Refutation::Relayed => format!("it answered {other}, whom this node had asked"),
        Refutation::Witnessed => format!("it had answered {other} meanwhile"),
        Refutation::Relaying => "it answered this node when asked about another".to_owned(),
        Refutation::Incarnation => match by {
            Some(by) => format!("it said so itself, as {by} told"),
            None => "it said so itself".to_owned(),
        },
    }
}

/// This node may be the slow one.
fn own_fault(what: &Explanation, at: SystemTime) -> String {
    let late = what.own.lateness.iter();
    let late = late.filter(|&&(ago, by)| ago <= SICK_WITHIN && by >= SICK_FROM);
    let Some(&(ago, by)) = late.max_by_key(|(_, by)| *by) else {
        return String::new();
    };
    format!(
        " Mind that this node itself stood still for {:.1} s at {}; what it misses then accuses \
         nobody.",
        by.as_secs_f64(),
        timestamp(before(at, ago))
    )
}
