//! What a verdict rests on, and what is known of a member: the evidence, as it is told to readers.
//!
//! Times are told as lengths before one moment (`ago`), because evidence outlives the process whose
//! clock it was measured by.

use std::borrow::Cow;
use std::sync::Arc;
use std::time::Duration;

use crate::member::{Generation, Incarnation, NodeName, Status};

use super::super::stats::{ProbeOutcome, labels};

/// What a verdict rests on.
#[derive(Clone, PartialEq, Debug)]
pub struct Evidence {
    /// The rule that fired: `own` (this node decided), `told` (an update said so), `isolated`
    /// (decided without contact to anybody; it is not told to others), or what another rule of the
    /// detector is called.
    pub rule: Cow<'static, str>,
    /// Decades of evidence; 0 when told.
    pub phi: f64,
    /// Witnesses that answered this node and got no answer from the member.
    pub witnesses: usize,
    /// Since when the member gave no proof of life, up to the verdict.
    pub silence: Duration,
    /// From whom this node heard it, when it was told.
    pub told_by: Option<NodeName>,
    /// All that this node held against the member, when it decided itself.
    pub report: Option<Arc<CaseReport>>,
}

impl Evidence {
    /// Evidence of nothing but a rule, and of how long the member has been silent.
    #[must_use]
    pub fn new(rule: &'static str, silence: Duration) -> Self {
        Evidence {
            rule: rule.into(),
            phi: 0.0,
            witnesses: 0,
            silence,
            told_by: None,
            report: None,
        }
    }
}

labels! {
    /// How far a case against a member has come.
    CasePhase {
        /// A ping went unanswered; relays are being asked.
        Open = "open",
        /// Loss no longer explains the silence; waiting whether a pause does.
        Suspect = "suspect",
        /// The pause tolerance has passed; fresh evidence is being collected.
        Final = "final",
    }
}

labels! {
    /// Who asked the member, and by which way.
    ProbeWay {
        /// This node, by a datagram.
        Direct = "direct",
        /// A relay that this node asked to.
        Relayed = "relayed",
        /// This node, over a stream.
        Stream = "stream",
        /// This node, because another had asked it to be its relay.
        AskedFor = "asked-for",
    }
}

labels! {
    /// What lifted a suspicion or a verdict.
    Refutation {
        /// The member answered a ping of this node.
        Answered = "answered",
        /// The member answered a relay.
        Relayed = "answered-relay",
        /// The member had answered a witness after the case began.
        Witnessed = "answered-witness",
        /// The member answered this node as a relay of others.
        Relaying = "answered-as-relay",
        /// The member raised its incarnation, and somebody told it.
        Incarnation = "incarnation",
    }
}

/// One question whether a member lives, and how it ended.
#[derive(Clone, PartialEq, Debug)]
pub struct ProbeReport {
    /// Which way.
    pub way: ProbeWay,
    /// Who asked the member: this node or the relay; `None` for a relay that is not listed now.
    pub observer: Option<NodeName>,
    /// For a question on behalf of another: who wanted to know.
    pub asked_by: Option<NodeName>,
    /// When it was sent.
    pub ago: Duration,
    /// How it ended.
    pub outcome: ProbeOutcome,
    /// After how long it was answered.
    pub round_trip: Option<Duration>,
}

/// What one witness has said.
#[derive(Clone, PartialEq, Debug)]
pub struct WitnessReport {
    /// Who; `None` for one that is not listed now.
    pub name: Option<NodeName>,
    /// Decades of its answers that were counted.
    pub decades: f64,
    /// How often it said that it gets no answer.
    pub answers: u32,
    /// Which share of its own questions to live members goes unanswered, as it last said.
    pub miss_rate: f64,
    /// When it last said so.
    pub ago: Duration,
}

/// What a verdict needs.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Thresholds {
    /// Decades for a suspicion.
    pub phi_suspect: f64,
    /// Decades that must come after the pause tolerance, for a death.
    pub phi_late: f64,
    /// Decades for a death.
    pub phi_dead: f64,
    /// How long a member may stand still.
    pub pause_tolerance: Duration,
}

/// The evidence of one case against a member. `own_misses`, `witnessed` and `heartbeats` add up to
/// `phi`.
#[derive(Clone, PartialEq, Debug)]
pub struct CaseReport {
    /// How far it had come.
    pub phase: CasePhase,
    /// How long before, the first unanswered ping was sent.
    pub began: Duration,
    /// How long before, it became a suspicion, not counting time in which this node stood still.
    pub suspected: Option<Duration>,
    /// Decades collected.
    pub phi: f64,
    /// Those of own pings without answer.
    pub own_misses: f64,
    /// Those of witnesses.
    pub witnessed: f64,
    /// Those of the member's heartbeats that failed to come.
    pub heartbeats: f64,
    /// Decades collected after the pause tolerance.
    pub late_phi: f64,
    /// Distinct witnesses.
    pub witness_count: usize,
    /// The weightiest witnesses, by weight.
    pub witnesses: Vec<WitnessReport>,
    /// How many others could be reached; counting stops at three.
    pub reachable: usize,
    /// Members of the cluster, this node and the accused included.
    pub cluster: usize,
    /// Own lateness since the first unanswered ping.
    pub lateness: Duration,
    /// How long before, anybody last answered this node.
    pub contact: Duration,
    /// What the verdict needs.
    pub thresholds: Thresholds,
    /// The latest questions, oldest first.
    pub probes: Vec<ProbeReport>,
}

/// phi and its parts at one moment of a case.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct PhiSample {
    /// When.
    pub ago: Duration,
    /// Decades.
    pub phi: f64,
    /// Those of own pings without answer.
    pub own_misses: f64,
    /// Those of witnesses.
    pub witnessed: f64,
    /// Those of the case in which the member's heartbeats failed to come.
    pub heartbeats: f64,
    /// Decades collected after the pause tolerance.
    pub late_phi: f64,
    /// Distinct witnesses.
    pub witnesses: u32,
    /// phi of the heartbeats alone, whether the case counts it or not.
    pub heartbeat_phi: f64,
}

/// Who told this node that a member is suspect or dead.
#[derive(Clone, PartialEq, Debug)]
pub struct Accusation {
    /// From whom it came, which need not be who decided; `None` for a teller not listed now.
    pub by: Option<NodeName>,
    /// What was said.
    pub status: Status,
    /// Of which incarnation.
    pub incarnation: Incarnation,
    /// When.
    pub ago: Duration,
}

/// How a suspicion or a verdict was lifted.
#[derive(Clone, PartialEq, Debug)]
pub struct RefutationReport {
    /// By what.
    pub how: Refutation,
    /// Who brought it: the relay, the witness, or the teller; `None` for the member itself.
    pub by: Option<NodeName>,
    /// The status it lifted.
    pub lifted: Status,
    /// The incarnation from then on.
    pub incarnation: Incarnation,
    /// When.
    pub ago: Duration,
}

/// The latest verdict that this node itself reached about a member.
#[derive(Clone, PartialEq, Debug)]
pub struct VerdictReport {
    /// Which status.
    pub status: Status,
    /// About which life.
    pub generation: Generation,
    /// When; the times in `evidence` are before that.
    pub ago: Duration,
    /// What it rests on.
    pub evidence: Evidence,
}

/// The arrivals of a member's heartbeats.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct HeartbeatReport {
    /// When the owner counted the newest that this node heard of.
    pub ago: Duration,
    /// Mean of the intervals.
    pub mean: Duration,
    /// Their standard deviation, at least a tenth of the mean.
    pub deviation: Duration,
    /// phi of the silence since, as of now: see `ArrivalWindow`.
    pub phi: f64,
}

/// How this node itself was while it judged.
#[derive(Clone, PartialEq, Debug)]
pub struct OwnReport {
    /// Whether it has lost contact with everybody.
    pub isolated: bool,
    /// 0 = healthy, to 8 = its timers are always late.
    pub local_health: u32,
    /// Share of its questions to live members that go unanswered in time.
    pub miss_rate: f64,
    /// When anybody last answered it; `None` if nobody ever has.
    pub contact: Option<Duration>,
    /// When its timers were too late, and by how much, oldest first.
    pub lateness: Vec<(Duration, Duration)>,
}

/// Everything that is kept about one member and the reason for its status.
#[derive(Clone, PartialEq, Debug)]
pub struct Explanation {
    /// Who.
    pub name: NodeName,
    /// Why the status is what it is: `self`, `answered` (it has answered this node), `told` (others
    /// say so), `own`, `isolated`, or what another rule of the detector is called.
    pub rule: Cow<'static, str>,
    /// When that was.
    pub rule_ago: Option<Duration>,
    /// Who told it, for `told`; `None` also where that is not kept any more.
    pub told_by: Option<NodeName>,
    /// The open case.
    pub case: Option<CaseReport>,
    /// The latest own verdict, also one that was lifted.
    pub verdict: Option<VerdictReport>,
    /// The latest questions, oldest first.
    pub probes: Vec<ProbeReport>,
    /// phi over the latest case, oldest first.
    pub phi: Vec<PhiSample>,
    /// Who accused it, oldest first.
    pub accusers: Vec<Accusation>,
    /// What lifted suspicions and verdicts, oldest first.
    pub refutations: Vec<RefutationReport>,
    /// Its heartbeats; `None` for this node itself.
    pub heartbeats: Option<HeartbeatReport>,
    /// This node.
    pub own: OwnReport,
    /// What a verdict needs.
    pub thresholds: Thresholds,
}
