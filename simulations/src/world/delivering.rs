//! Datagrams on their way, and what arrives at a process.

use rumord::protocol::{Input, Transmit};
use rumord::wire::{Carrier, MessageKind};

use super::{Checking, Happening, World};
use crate::network::{Content, Dropped, Packet, Sending};
use crate::process::{Arrival, Condition, Process, ProcessId, SOCKET_PACKETS_MAX};
use crate::queue::Class;
use crate::streams::Frames;

impl World {
    /// A core wants something sent.
    pub(super) fn transmit(&mut self, id: ProcessId, transmit: Transmit) {
        let process = &mut self.processes[id.0];
        if process.condition == Condition::IoBlocked {
            process.send_later(transmit);
            return;
        }
        match transmit {
            Transmit::Datagram { to, payload } => {
                let sound = match self.options.checking {
                    Checking::Nothing => Ok(()),
                    Checking::Everything => self.checker.invariant_datagram_fits_and_decodes(
                        self.now,
                        process,
                        &payload,
                        self.options.config.datagram_bytes_max,
                    ),
                };
                let from = process.address;
                let (kind, bytes) = (kind_of(&payload), payload.len());
                self.trace.note(
                    self.now,
                    Some(process),
                    "send",
                    format_args!("{kind} {bytes} {to}"),
                );
                let content = Content::Intact;
                let packet = Packet {
                    from,
                    to,
                    payload,
                    content,
                };
                self.report(sound);
                let sending = self.network.send(self.now, packet);
                self.dispatch(sending, to);
            }
            Transmit::Open {
                exchange,
                to,
                frames,
                timeout,
            } => self.open_stream(id, exchange, to, frames, timeout),
            Transmit::Answer { stream, frames } => self.answer_stream(id, stream, frames),
        }
    }

    /// Puts a datagram that was sent into the queue.
    pub(super) fn dispatch(&mut self, sending: Sending, to: std::net::SocketAddr) {
        match sending {
            Sending::UnderWay((at, packet), again) => {
                self.queue
                    .push(at, Class::Delivery, Happening::Datagram(packet));
                if let Some((at, packet)) = again.map(|copy| *copy) {
                    self.queue
                        .push(at, Class::Delivery, Happening::Datagram(packet));
                }
            }
            Sending::Dropped(reason) => self.note_lost(reason, to),
            Sending::Held => {}
        }
    }

    fn note_lost(&mut self, reason: Dropped, to: std::net::SocketAddr) {
        let reason = reason.as_str();
        self.trace
            .note(self.now, None, "lose", format_args!("{reason} {to}"));
    }

    /// A datagram reaches an address.
    pub(super) fn arrive(&mut self, packet: Packet) {
        let to = packet.to;
        let Some(id) = self.listener(to) else {
            let reason = self.network.drop(Dropped::NoListener);
            return self.note_lost(reason, to);
        };
        let process = &self.processes[id.0];
        let lost = match process.condition {
            Condition::Running => return self.take_datagram(id, &packet),
            Condition::Outage => Some(Dropped::Outage),
            _ => (process.waiting_datagrams() >= SOCKET_PACKETS_MAX).then_some(Dropped::SocketFull),
        };
        if let Some(reason) = lost {
            let reason = self.network.drop(reason);
            return self.note_lost(reason, to);
        }
        self.deliver(id, Arrival::Datagram(packet));
    }

    /// Hands something to a process, or lets it wait there.
    pub(super) fn deliver(&mut self, id: ProcessId, arrival: Arrival) {
        let process = &mut self.processes[id.0];
        match process.condition {
            Condition::Running => self.take(id, arrival),
            // The end of a stream is a timer's work, and timers run while IO is blocked.
            Condition::IoBlocked
                if matches!(arrival, Arrival::Ended { .. } | Arrival::Closed { .. }) =>
            {
                self.take(id, arrival);
            }
            Condition::Stopped => {}
            Condition::Paused | Condition::Outage | Condition::IoBlocked => {
                process.inbox.push_back(arrival);
            }
        }
    }

    /// The core handles something that has arrived.
    pub(super) fn take(&mut self, id: ProcessId, arrival: Arrival) {
        match arrival {
            Arrival::Datagram(packet) => self.take_datagram(id, &packet),
            Arrival::Request {
                stream,
                from,
                frames,
            } => {
                for frame in &self.tampered(id, frames) {
                    let request = Input::Request {
                        stream,
                        from,
                        frame,
                    };
                    self.feed(id, request);
                }
            }
            Arrival::Answer { exchange, frames } => {
                for frame in &self.tampered(id, frames) {
                    self.feed(id, Input::Reply { exchange, frame });
                }
                self.feed(id, Input::ExchangeEnded { exchange });
            }
            Arrival::Closed { stream } => self.feed(id, Input::StreamClosed { stream }),
            Arrival::Ended { exchange } => self.feed(id, Input::ExchangeEnded { exchange }),
        }
    }

    /// What a broken node hears instead of `frame`.
    fn tamper(&self, id: ProcessId, frame: &[u8], carrier: Carrier) -> Option<Vec<u8>> {
        let Process { node, cluster, .. } = &self.processes[id.0];
        self.options
            .tampering
            .rewrite(node, cluster, frame, carrier)
    }

    fn tampered(&self, id: ProcessId, mut frames: Frames) -> Frames {
        for frame in &mut frames {
            if let Some(rewritten) = self.tamper(id, frame, Carrier::Stream) {
                *frame = rewritten;
            }
        }
        frames
    }

    fn take_datagram(&mut self, id: ProcessId, packet: &Packet) {
        self.network.note_delivered();
        if packet.content == Content::Damaged {
            self.checker.note_damaged();
        }
        let (kind, bytes, from) = (kind_of(&packet.payload), packet.payload.len(), packet.from);
        self.trace.note(
            self.now,
            Some(&self.processes[id.0]),
            "hear",
            format_args!("{kind} {bytes} {from}"),
        );
        let rewritten = self.tamper(id, &packet.payload, Carrier::Datagram);
        let payload = rewritten.as_deref().unwrap_or(&packet.payload);
        self.feed(id, Input::Datagram { from, payload });
    }

    /// A stranger sends `payload` to a process, from any address it likes; it arrives at once.
    pub fn inject(&mut self, from: std::net::SocketAddr, id: ProcessId, payload: &[u8]) {
        self.checker.note_damaged();
        self.feed(id, Input::Datagram { from, payload });
    }
}

/// The word for the kind of message in `payload`.
pub(super) fn kind_of(payload: &[u8]) -> &'static str {
    let kind = payload
        .get(rumord::wire::HEADER_BYTES - 1)
        .and_then(|&byte| MessageKind::from_wire(byte));
    kind.map_or("unknown", MessageKind::as_str)
}
