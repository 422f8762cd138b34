//! What a host does to its process: too little processor time, late timers, another wall clock.

use std::time::Duration;

use rumord::protocol::Input;
use rumord::time::Instant;

use super::{EPOCH, Happening, World};
use crate::link::exponential;
use crate::process::{Condition, Lateness, ProcessId};
use crate::queue::Class;

/// Mean time for which a starved process runs.
const RUN_MEAN: Duration = Duration::from_millis(50);
/// Mean time for which it then stands still.
const STALL_MEAN: Duration = Duration::from_millis(400);
/// Its longest stall, as a share of the pause tolerance: longer ones are pauses.
const STALL_SHARE_MAX: f64 = 0.98;
/// How often a process looks whether its wall clock was set, as the daemon does.
const WALL_CLOCK_PERIOD: Duration = Duration::from_secs(5);

impl World {
    /// What a wall clock that is `ahead` by so many seconds shows; none shows times before 1970.
    #[must_use]
    pub fn wall_clock(&self, ahead: i64) -> Duration {
        let step = Duration::from_secs(ahead.unsigned_abs());
        let truth = EPOCH + self.now.since(Instant::ORIGIN);
        match ahead < 0 {
            true => truth.saturating_sub(step),
            false => truth.saturating_add(step),
        }
    }

    /// For `length`, a process gets the processor for 50 ms at a time and then waits for 400 ms, in
    /// the mean, both exponentially distributed. While it waits it handles nothing; then it handles
    /// what has come, then its timers.
    pub fn starve(&mut self, id: ProcessId, length: Duration) {
        let until = self.now + length;
        let process = &mut self.processes[id.0];
        if !process.is_up() {
            return;
        }
        process.starved_until = Some(until);
        self.trace.note(
            self.now,
            Some(process),
            "starve",
            format_args!("{length:?}"),
        );
        self.plan_stall(id);
    }

    /// The next stall of a process that is starved and runs.
    pub(super) fn plan_stall(&mut self, id: ProcessId) {
        let process = &self.processes[id.0];
        let starved = process.starved_until.is_some_and(|until| self.now < until);
        if starved && process.condition == Condition::Running {
            let stall = Happening::Stall(id, process.changes);
            let at = self.now + exponential(RUN_MEAN, &mut self.hosts_rng);
            self.queue.push(at, Class::Fault, stall);
        }
    }

    /// A starved process stands still again.
    pub(super) fn on_stall(&mut self, id: ProcessId, change: u64) {
        let process = &self.processes[id.0];
        let starved = process.starved_until.filter(|&until| self.now < until);
        if let Some(until) = starved.filter(|_| process.changes == change) {
            let longest = self.options.config.pause_tolerance.mul_f64(STALL_SHARE_MAX);
            let stall = exponential(STALL_MEAN, &mut self.hosts_rng).min(longest);
            self.impair(id, Condition::Paused, stall.min(until.since(self.now)));
        }
    }

    /// From now on a process's timers are this late; what arrives is handled at once.
    pub fn delay_timers(&mut self, id: ProcessId, lateness: Lateness) {
        let process = &mut self.processes[id.0];
        process.lateness = lateness;
        process.late = None;
        process.armed = None;
        self.trace.note(
            self.now,
            Some(process),
            "timers",
            format_args!("{lateness}"),
        );
        self.arm(id);
    }

    /// Sets the wall clock of a process's host `seconds` forth, or back. The process notices the
    /// next time it looks, and a restart on this host goes by the clock as set.
    pub fn step_wall_clock(&mut self, id: ProcessId, seconds: i64) {
        let process = &mut self.processes[id.0];
        process.wall_ahead = process.wall_ahead.saturating_add(seconds);
        self.trace.note(
            self.now,
            Some(process),
            "clock",
            format_args!("{seconds:+}"),
        );
        self.queue.push(
            self.now + WALL_CLOCK_PERIOD,
            Class::Fault,
            Happening::LookAtWallClock(id),
        );
    }

    /// Puts the wall clock of a process's host right.
    pub fn correct_wall_clock(&mut self, id: ProcessId) {
        let ahead = self.processes[id.0].wall_ahead;
        if ahead != 0 {
            self.step_wall_clock(id, ahead.saturating_neg());
        }
    }

    /// A process that stands still looks when it runs again, by its own period.
    pub(super) fn look_at_wall_clock(&mut self, id: ProcessId) {
        let process = &self.processes[id.0];
        if process.runs() {
            let since_epoch = self.wall_clock(process.wall_ahead);
            self.feed(id, Input::WallClock { since_epoch });
        } else if process.is_up() {
            let again = Happening::LookAtWallClock(id);
            self.queue
                .push(self.now + WALL_CLOCK_PERIOD, Class::Fault, again);
        }
    }
}
