//! Being cut off: verdicts that are this node's alone.

use super::{EventKind, Evidence, Node, Outbox};
use crate::member::NameHash;

impl Node {
    /// Without contact to anybody a verdict is this node's alone: shown, not told, and lifted by
    /// the first answer.
    pub(super) fn judge_isolated(&mut self, member: NameHash, out: &mut Outbox) {
        let circumstances = self.circumstances(member);
        let Some(case) = self.cases.get(&member) else {
            return;
        };
        let age = self.health.awake(self.now).since(case.opened);
        let old = age >= 2 * self.config.pause_tolerance;
        if circumstances.reachable > 0 || circumstances.cluster <= 2 || !old {
            return;
        }
        self.note_isolated_verdict(member);
        self.table.set_isolated_verdict(member, true);
        if !self.isolated {
            self.isolated = true;
            self.emit_isolation("contact-lost", out);
        }
    }

    /// Somebody has answered again.
    pub(super) fn end_isolation(&mut self, out: &mut Outbox) {
        if !self.isolated {
            return;
        }
        self.isolated = false;
        let members: Vec<NameHash> = self
            .table
            .iter()
            .filter(|(_, entry)| entry.isolated_verdict)
            .map(|(member, _)| member)
            .collect();
        for member in members {
            self.note_acquittal(member);
            self.table.set_isolated_verdict(member, false);
            self.hold.note_return(member, self.now);
        }
        self.emit_isolation("contact-regained", out);
    }

    fn emit_isolation(&self, rule: &'static str, out: &mut Outbox) {
        let evidence = Evidence::new(rule, self.now.since(self.contact_at));
        let event = self.own_event(EventKind::Isolated, None, Some(evidence));
        out.events.push(event);
    }
}
