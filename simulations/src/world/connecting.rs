//! Streams between processes, step by step.

use std::net::SocketAddr;
use std::time::Duration;

use rumord::protocol::{ExchangeId, Input, StreamId};

use super::{Happening, World};
use crate::process::{Arrival, Condition, ProcessId};
use crate::queue::Class;
use crate::rules::Carried;
use crate::streams::{Connection, ConnectionId, Frames, Step};

impl World {
    /// A core opens a stream.
    pub(super) fn open_stream(
        &mut self,
        caller: ProcessId,
        exchange: ExchangeId,
        to: SocketAddr,
        frames: Frames,
        timeout: Duration,
    ) {
        self.check_frames(caller, &frames);
        let from = self.processes[caller.0].address;
        let id = self.connections.open(Connection {
            caller,
            exchange,
            from,
            to,
            callee: None,
        });
        self.note_stream(caller, "connect", id, frames.len(), to);
        let trip = self.network.stream_delay(from, to, 0);
        self.plan(trip, id, Step::Connect(frames));
        self.plan(timeout, id, Step::Timeout);
    }

    /// A core answers a request.
    pub(super) fn answer_stream(&mut self, callee: ProcessId, stream: StreamId, frames: Frames) {
        self.check_frames(callee, &frames);
        let id = ConnectionId::of(stream);
        let open = self.connections.get(id);
        if let Some(connection) = open.filter(|connection| connection.callee == Some(callee)) {
            let bytes = frames.iter().map(Vec::len).sum();
            let trip = self
                .network
                .stream_delay(connection.to, connection.from, bytes);
            self.plan(trip, id, Step::Answer(frames));
        }
    }

    fn plan(&mut self, after: Duration, id: ConnectionId, step: Step) {
        let happening = Happening::Stream(id, step);
        self.queue
            .push(self.now + after, Class::Delivery, happening);
    }

    /// The next thing happens to a connection.
    pub(super) fn on_stream(&mut self, id: ConnectionId, step: Step) {
        let Some(connection) = self.connections.get(id) else {
            return;
        };
        match step {
            Step::Connect(frames) => self.on_connect(id, connection, frames),
            Step::Request(frames) => self.on_stream_request(id, connection, frames),
            Step::Answer(frames) => self.on_stream_answer(id, connection, frames),
            Step::Refused => self.end_stream(id, connection, "refused"),
            Step::Timeout => self.end_stream(id, connection, "timeout"),
        }
    }

    /// Whether nothing passes between the two ends, in either direction: every step needs both,
    /// because each is acknowledged.
    fn is_stream_cut(&self, connection: Connection) -> bool {
        let Connection { from, to, .. } = connection;
        let rules = self.network.rules();
        let silent = |address: SocketAddr| {
            self.listeners
                .get(&address)
                .is_some_and(|id| self.processes[id.0].condition == Condition::Outage)
        };
        rules.is_cut(from, to, Carried::Streams)
            || rules.is_cut(to, from, Carried::Streams)
            || silent(from)
            || silent(to)
    }

    fn on_connect(&mut self, id: ConnectionId, connection: Connection, frames: Frames) {
        if self.is_stream_cut(connection) {
            return;
        }
        let Connection { from, to, .. } = connection;
        let back = self.network.stream_delay(to, from, 0);
        // A process that stands still has a kernel that accepts for it.
        let Some(&callee) = self.listeners.get(&to) else {
            return self.plan(back, id, Step::Refused);
        };
        self.connections.accept(id, callee);
        let bytes = frames.iter().map(Vec::len).sum();
        let forth = self.network.stream_delay(from, to, bytes);
        self.plan(back + forth, id, Step::Request(frames));
    }

    fn on_stream_request(&mut self, id: ConnectionId, connection: Connection, frames: Frames) {
        let Some(callee) = connection.callee else {
            return;
        };
        if self.is_stream_cut(connection) || !self.processes[callee.0].is_up() {
            return;
        }
        let from = connection.from;
        self.note_stream(callee, "request", id, frames.len(), from);
        let stream = id.stream();
        self.deliver(
            callee,
            Arrival::Request {
                stream,
                from,
                frames,
            },
        );
    }

    fn on_stream_answer(&mut self, id: ConnectionId, connection: Connection, frames: Frames) {
        if self.is_stream_cut(connection) {
            return;
        }
        self.close_stream(id, connection);
        let Connection {
            caller,
            exchange,
            to,
            ..
        } = connection;
        self.note_stream(caller, "answer", id, frames.len(), to);
        self.deliver(caller, Arrival::Answer { exchange, frames });
    }

    /// Both ends are closed; the callee's host sees that as soon as the caller's.
    fn close_stream(&mut self, id: ConnectionId, connection: Connection) {
        self.connections.close(id);
        self.note_closed(id, connection);
    }

    fn note_closed(&mut self, id: ConnectionId, connection: Connection) {
        if let Some(callee) = connection.callee {
            let stream = id.stream();
            self.deliver(callee, Arrival::Closed { stream });
        }
    }

    fn end_stream(&mut self, id: ConnectionId, connection: Connection, verb: &str) {
        self.close_stream(id, connection);
        let Connection {
            caller,
            exchange,
            to,
            ..
        } = connection;
        self.note_stream(caller, verb, id, 0, to);
        self.deliver(caller, Arrival::Ended { exchange });
    }

    /// A process has ended: its host resets what it had accepted, and nobody waits for what it
    /// had opened.
    pub(super) fn reset_streams(&mut self, process: ProcessId) {
        for (id, connection) in self.connections.abandon(process) {
            self.note_closed(id, connection);
        }
        for id in self.connections.accepted_by(process) {
            if let Some(connection) = self.connections.get(id) {
                let back = self.network.stream_delay(connection.to, connection.from, 0);
                self.plan(back, id, Step::Refused);
            }
        }
    }

    /// A stranger's frame reaches a process on a stream of its own; nobody waits for the answer.
    pub fn inject_frame(&mut self, from: SocketAddr, id: ProcessId, frame: &[u8]) {
        self.checker.note_damaged();
        let stream = self.strange_stream(id, from);
        let request = Input::Request {
            stream,
            from,
            frame,
        };
        self.feed(id, request);
        self.feed(id, Input::StreamClosed { stream });
    }

    /// A stream whose caller is gone already, so that its number is taken and no answer arrives.
    fn strange_stream(&mut self, callee: ProcessId, from: SocketAddr) -> StreamId {
        let id = self.connections.open(Connection {
            caller: callee,
            exchange: ExchangeId(u64::MAX),
            from,
            to: self.processes[callee.0].address,
            callee: None,
        });
        self.connections.close(id);
        id.stream()
    }

    fn check_frames(&mut self, process: ProcessId, frames: &Frames) {
        for frame in frames {
            let sound = self.checker.invariant_frame_fits_and_decodes(
                self.now,
                &self.processes[process.0],
                frame,
            );
            self.report(sound);
        }
    }

    fn note_stream(
        &mut self,
        process: ProcessId,
        verb: &str,
        id: ConnectionId,
        frames: usize,
        other: SocketAddr,
    ) {
        let process = Some(&self.processes[process.0]);
        let stream = id.stream().0;
        self.trace.note(
            self.now,
            process,
            verb,
            format_args!("{stream} {frames} {other}"),
        );
    }
}
