//! What one step of the core has brought: published, told and sent.

use std::sync::Arc;
use std::time::SystemTime;

use super::super::event_log::Logged;
use super::super::handle::LeaveReport;
use super::super::inbound::StreamInput;
use super::super::outbound;
use super::super::store::Arrival;
use super::Driver;
use crate::member::EventRef;
use crate::protocol::{Event, Transmit};

impl Driver {
    /// Publishes the table, tells the events, and sends what is to be sent. The table first: who
    /// gets an answer finds in it what that speaks of. Events second: a raised generation must be
    /// durable before it is told to anybody.
    pub(super) fn flush(&mut self) {
        let now = self.clock.now();
        if let Some(index) = self.publisher.update(&self.core, now, &self.clock) {
            self.changed.send_replace(index);
        }
        let mut outbox = std::mem::take(&mut self.outbox);
        let logged = |event: &Event| matches!(event, Event::Member(_));
        let grown = outbox.events.iter().any(logged);
        for event in &outbox.events {
            self.observer.event(event);
            self.publisher.note(event, SystemTime::now());
            self.on_event(event);
        }
        if grown {
            self.store.wake();
        }
        self.hand_over_arrivals();
        for transmit in outbox.transmits.drain(..) {
            self.transmit(transmit);
        }
        outbox.clear();
        self.outbox = outbox;
        // Whoever is told of a change must find it in the snapshot.
        for (reply, outcome) in self.described.drain(..) {
            // An error means that the caller has gone.
            let _ = reply.send(outcome);
        }
    }

    fn on_event(&mut self, event: &Event) {
        match event {
            Event::Join { address, outcome } => self.joins.settle(*address, outcome),
            Event::GenerationRaised(generation) => {
                if let Err(error) = self.store.persist_generation(*generation) {
                    tracing::error!(%generation, %error, "cannot persist the generation");
                }
            }
            &Event::LeaveCompleted {
                acknowledged,
                expected,
            } => {
                for reply in self.leaving.drain(..) {
                    // An error means that the caller has gone.
                    let _ = reply.send(LeaveReport {
                        acknowledged,
                        expected,
                    });
                }
                self.stopped = true;
            }
            Event::Member(event) => {
                let what = Logged::Member(event.clone());
                self.events.append(SystemTime::now(), what);
            }
            Event::User(event) => {
                self.marks.advance(&event.event_ref());
                self.arrivals.push(Arrival::Event(Arc::clone(event)));
            }
            Event::UserMissed { first, last } => {
                let upto = EventRef {
                    sequence: *last,
                    ..*first
                };
                self.marks.advance(&upto);
                self.arrivals.push(Arrival::Missed(upto));
            }
            Event::MetadataSet(_)
            | Event::StartedOver { .. }
            | Event::ProbeAnswered(_)
            | Event::Late(_)
            | Event::Mistake { .. }
            | Event::ClockSkew { .. } => {}
        }
    }

    fn transmit(&mut self, transmit: Transmit) {
        match transmit {
            Transmit::Datagram { to, payload } => {
                // A full buffer or an unreachable network loses the datagram, as networks do.
                if let Err(error) = self.udp.try_send_to(&payload, to) {
                    tracing::debug!(%to, %error, "sending failed");
                }
            }
            Transmit::Open {
                exchange,
                to,
                frames,
                timeout,
            } => {
                self.open(outbound::Request {
                    exchange,
                    to,
                    frames,
                    timeout,
                });
            }
            Transmit::Answer { stream, frames } => {
                if let Some(reply) = self.answers.remove(&stream) {
                    // An error means that the peer has gone.
                    let _ = reply.send(frames);
                }
            }
        }
    }

    fn open(&self, request: outbound::Request) {
        let inputs = self.stream_sender.clone();
        let places = Arc::clone(&self.outbound);
        tokio::spawn(async move {
            match places.try_acquire_owned() {
                Ok(_place) => outbound::run(request, inputs).await,
                Err(_) => {
                    let exchange = request.exchange;
                    // An error means that the driver has stopped.
                    let _ = inputs.send(StreamInput::Ended { exchange }).await;
                }
            }
        });
    }
}
