//! The event loop: one task that owns the core and feeds it.

mod describing;
mod eventing;
mod flushing;

use std::collections::HashMap;
use std::future::pending;
use std::io;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use tokio::net::UdpSocket;
use tokio::sync::{Semaphore, mpsc, oneshot, watch};
use tokio::task::AbortHandle;
use tokio::time::{Sleep, sleep};

use super::backlog::Backlog;
use super::clock::{Clock, WallClock};
use super::event_log::EventLog;
use super::handle::{Command, LeaveReport};
use super::inbound;
use super::inbound::StreamInput;
use super::joins::{Joined, Joins, Lookup};
use super::marks::Marks;
use super::options::{Observer, Options};
use super::publish::Publisher;
use super::resolve::Family;
use super::sockets::{Sockets, drop_waiting};
use super::store::{Arrival, Durable, Store};
use crate::member::NameHash;
use crate::protocol::{Input, Node, Outbox, StreamId};
use crate::time::Instant;

/// Datagrams received in one wake-up before timers get their turn: a flood cannot starve them, and
/// a whole kernel buffer of answers is heard before a stall is taken for silence.
const RECEIVE_BATCH_MAX: usize = 1024;
/// Inputs of streams, and lookups, taken in one wake-up: a flood of datagrams must not keep joins
/// and repairs waiting.
const STREAM_BATCH_MAX: usize = 32;
/// Largest datagram that can arrive.
const RECEIVE_BYTES: usize = 65_536;
/// Stream inputs that may wait for the driver.
const STREAM_INPUTS_MAX: usize = 256;
/// Streams that this node has open at a time; further ones fail at once and are tried again.
const OUTBOUND_MAX: usize = 64;
/// How often the wall clock is looked at.
const WALL_CLOCK_PERIOD: Duration = Duration::from_secs(5);

/// Why the loop woke.
enum Wake {
    Command(Option<Command>),
    Readable,
    Stream(StreamInput),
    Lookup(Lookup),
    Durable(Durable),
    Timer,
}

/// What a driver is made of.
pub(super) struct Parts {
    pub(super) core: Node,
    pub(super) clock: Clock,
    pub(super) sockets: Sockets,
    pub(super) publisher: Publisher,
    pub(super) changed: watch::Sender<u64>,
    pub(super) events: EventLog,
    pub(super) durable: mpsc::UnboundedReceiver<Durable>,
    pub(super) backlog: Backlog,
    pub(super) marks: Marks,
}

/// Owns the core, its sockets and its clock.
pub(super) struct Driver {
    core: Node,
    clock: Clock,
    udp: Arc<UdpSocket>,
    streams: mpsc::Receiver<StreamInput>,
    stream_sender: mpsc::Sender<StreamInput>,
    acceptor: AbortHandle,
    outbound: Arc<Semaphore>,
    answers: HashMap<StreamId, oneshot::Sender<Vec<Vec<u8>>>>,
    joins: Joins,
    lookups: mpsc::Receiver<Lookup>,
    look_up_at: Option<Instant>,
    wall_clock_at: Instant,
    publisher: Publisher,
    changed: watch::Sender<u64>,
    observer: Arc<dyn Observer>,
    store: Arc<dyn Store>,
    events: EventLog,
    /// What the store has made durable.
    durable: mpsc::UnboundedReceiver<Durable>,
    backlog: Backlog,
    /// What one step of the core has brought from others, for the store.
    arrivals: Vec<Arrival>,
    /// How far the store knows every origin, or will when it has taken what was given to it.
    marks: Marks,
    local: NameHash,
    leave_timeout: Duration,
    leaving: Vec<oneshot::Sender<LeaveReport>>,
    /// Told once what they changed is published.
    described: Vec<describing::Waiting>,
    outbox: Outbox,
    buffer: Vec<u8>,
    stopped: bool,
}

impl Driver {
    pub(super) fn new(parts: Parts, options: Options) -> Self {
        let Parts {
            mut core,
            clock,
            sockets,
            publisher,
            changed,
            events,
            durable,
            backlog,
            marks,
        } = parts;
        let (stream_sender, streams) = mpsc::channel(STREAM_INPUTS_MAX);
        let acceptor = tokio::spawn(inbound::serve(sockets.tcp, stream_sender.clone()));
        let (joins, lookups) = Joins::new(options.join, Family::of(sockets.address));
        let now = clock.now();
        let since_epoch = clock.since_epoch();
        let mut outbox = Outbox::new();
        core.handle(now, Input::WallClock { since_epoch }, &mut outbox);
        Driver {
            core,
            clock,
            udp: Arc::new(sockets.udp),
            streams,
            stream_sender,
            acceptor: acceptor.abort_handle(),
            outbound: Arc::new(Semaphore::new(OUTBOUND_MAX)),
            answers: HashMap::new(),
            joins,
            lookups,
            look_up_at: Some(now),
            wall_clock_at: now + WALL_CLOCK_PERIOD,
            publisher,
            changed,
            observer: options.observer,
            store: options.store,
            events,
            durable,
            backlog,
            arrivals: Vec::new(),
            marks,
            local: options.name.hash(),
            leave_timeout: options.leave_timeout,
            leaving: Vec::new(),
            described: Vec::new(),
            outbox,
            buffer: vec![0; RECEIVE_BYTES],
            stopped: false,
        }
    }

    /// Runs until the node has left, or every handle is gone.
    pub(super) async fn run(mut self, mut commands: mpsc::Receiver<Command>) {
        loop {
            self.run_due();
            self.flush();
            if self.stopped {
                return;
            }
            let wake = self.wait(&mut commands).await;
            if self.core.has_overslept(self.clock.now()) {
                self.drop_backlog();
            }
            self.on_wake(wake);
            // What has been received goes before timers, whatever woke the loop.
            self.receive_batch();
            self.take_stream_batch();
            self.take_durable_batch();
        }
    }

    /// Everything that the clock says is due.
    fn run_due(&mut self) {
        let now = self.clock.now();
        if now >= self.wall_clock_at {
            self.look_at_wall_clock(now);
        }
        if self.look_up_at.is_some_and(|at| now >= at) {
            self.joins.look_up_list();
            let joined = if self.core.state().ready {
                Joined::Yes
            } else {
                Joined::NotYet
            };
            self.look_up_at = self.joins.look_up_again(joined).map(|pause| now + pause);
        }
        if now >= self.core.next_deadline() {
            self.core.handle(now, Input::Deadline, &mut self.outbox);
        }
    }

    fn look_at_wall_clock(&mut self, now: Instant) {
        if self.clock.check_wall_clock() == WallClock::Stepped {
            tracing::info!("the wall clock was set");
            let since_epoch = self.clock.since_epoch();
            self.core
                .handle(now, Input::WallClock { since_epoch }, &mut self.outbox);
        }
        self.events.expire(SystemTime::now());
        self.note_marks();
        self.wall_clock_at = now + WALL_CLOCK_PERIOD;
    }

    /// After a long sleep what waits in the sockets is older than all others' tombstones.
    fn drop_backlog(&mut self) {
        drop_waiting(&self.udp, &mut self.buffer);
        while let Ok(input) = self.streams.try_recv() {
            if let StreamInput::Closed { stream } | StreamInput::Request { stream, .. } = input {
                self.answers.remove(&stream);
            }
        }
    }

    async fn wait(&mut self, commands: &mut mpsc::Receiver<Command>) -> Wake {
        let sleep = self.sleep_until_due();
        tokio::select! {
            biased;
            command = commands.recv() => Wake::Command(command),
            _ = self.udp.readable() => Wake::Readable,
            Some(input) = self.streams.recv() => Wake::Stream(input),
            Some(lookup) = self.lookups.recv() => Wake::Lookup(lookup),
            Some(durable) = self.durable.recv() => Wake::Durable(durable),
            () = sleep => Wake::Timer,
            else => pending().await,
        }
    }

    /// Until the next thing is due. The clock decides later whether it is: a sleep may end early.
    fn sleep_until_due(&self) -> Sleep {
        let due = self.core.next_deadline().min(self.wall_clock_at);
        let due = self.look_up_at.map_or(due, |at| at.min(due));
        sleep(due.since(self.clock.now()))
    }

    fn on_wake(&mut self, wake: Wake) {
        match wake {
            Wake::Command(Some(command)) => self.on_command(command),
            // Nobody holds a handle any more.
            Wake::Command(None) => self.stopped = true,
            Wake::Stream(input) => self.on_stream_input(input),
            Wake::Lookup(lookup) => self.on_lookup(lookup),
            Wake::Durable(durable) => self.on_durable(durable),
            Wake::Readable | Wake::Timer => {}
        }
    }

    fn on_command(&mut self, command: Command) {
        match command {
            Command::Join { addresses, reply } => {
                // A node that was forgotten comes back by being told to join again.
                self.core
                    .handle(self.clock.now(), Input::Return, &mut self.outbox);
                self.joins.look_up(addresses, reply);
            }
            Command::Forget { name, reply } => {
                let input = Input::Forget { name: &name };
                self.core.handle(self.clock.now(), input, &mut self.outbox);
                // An error means that the caller has gone.
                let _ = reply.send(self.core.forgetting(&name));
            }
            Command::Delivery { event, reply } => {
                // An error means that the caller has gone.
                let _ = reply.send(self.core.delivery(&event));
            }
            Command::AwaitAgreement { length, pause } => {
                let input = Input::AwaitAgreement { length, pause };
                self.core.handle(self.clock.now(), input, &mut self.outbox);
            }
            Command::Leave { reply } => {
                self.leaving.push(reply);
                let timeout = self.leave_timeout;
                self.core
                    .handle(self.clock.now(), Input::Leave { timeout }, &mut self.outbox);
            }
            Command::Describe {
                change,
                expected,
                reply,
            } => {
                let outcome = self.describe(&change, &expected);
                self.described.push((reply, outcome));
            }
        }
    }

    fn on_lookup(&mut self, lookup: Lookup) {
        let addresses = self.joins.take(lookup);
        let input = Input::Join {
            addresses: &addresses,
        };
        self.core.handle(self.clock.now(), input, &mut self.outbox);
    }

    fn on_stream_input(&mut self, input: StreamInput) {
        let now = self.clock.now();
        match input {
            StreamInput::Opened { stream, reply } => {
                self.answers.insert(stream, reply);
            }
            StreamInput::Request {
                stream,
                from,
                frame,
            } => {
                let input = Input::Request {
                    stream,
                    from,
                    frame: &frame,
                };
                self.core.handle(now, input, &mut self.outbox);
            }
            StreamInput::Closed { stream } => {
                self.answers.remove(&stream);
                self.core
                    .handle(now, Input::StreamClosed { stream }, &mut self.outbox);
            }
            StreamInput::Reply { exchange, frame } => {
                let input = Input::Reply {
                    exchange,
                    frame: &frame,
                };
                self.core.handle(now, input, &mut self.outbox);
            }
            StreamInput::Ended { exchange } => {
                self.core
                    .handle(now, Input::ExchangeEnded { exchange }, &mut self.outbox);
            }
        }
    }

    fn receive_batch(&mut self) {
        for _ in 0..RECEIVE_BATCH_MAX {
            match self.udp.try_recv_from(&mut self.buffer) {
                Ok((bytes, from)) => {
                    let input = Input::Datagram {
                        from,
                        payload: &self.buffer[..bytes],
                    };
                    self.core.handle(self.clock.now(), input, &mut self.outbox);
                }
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return,
                // An earlier datagram's failure, reported late; the next call goes on.
                Err(error) => tracing::debug!(%error, "receiving failed"),
            }
        }
    }

    /// What streams and lookups have brought meanwhile. Waiting for it alone would not do: the
    /// socket, looked at first, may always have more.
    fn take_stream_batch(&mut self) {
        for _ in 0..STREAM_BATCH_MAX {
            let Ok(input) = self.streams.try_recv() else {
                break;
            };
            self.on_stream_input(input);
        }
        if let Ok(lookup) = self.lookups.try_recv() {
            self.on_lookup(lookup);
        }
    }
}

impl Drop for Driver {
    fn drop(&mut self) {
        self.acceptor.abort();
    }
}
