//! Connections: a bounded number of them, none of which can idle or dawdle for ever.

use std::io;
use std::net::SocketAddr;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::task::{Context, Poll, ready};
use std::time::Duration;

use axum::extract::connect_info::Connected;
use axum::serve::{IncomingStream, Listener};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::time::{Instant, Sleep};

/// Most connections at once; a further one waits in the listener's backlog.
pub(super) const CONNECTIONS_MAX: usize = 576;
/// One connection in so many is not for blocked reads.
const RESERVED_SHARE: usize = 9;
/// How long a client may take to send the whole head of a request, counted from the connection's
/// start or the last answer, and how long it may leave an answer untouched.
const PATIENCE: Duration = Duration::from_secs(30);
/// Pause after the system refused a connection: without one, a lack of file descriptors spins.
const ACCEPT_PAUSE: Duration = Duration::from_millis(50);

/// A listener with a bounded number of connections.
pub(super) struct Bounded {
    listener: TcpListener,
    places: Arc<Semaphore>,
    connections_max: usize,
    patience: Duration,
}

/// One accepted connection, holding its place.
pub(super) struct Connection {
    stream: TcpStream,
    activity: Activity,
    /// Runs out when the client has dawdled.
    patience: Pin<Box<Sleep>>,
    length: Duration,
    /// The phase that `patience` is counted for.
    phase: u64,
    _place: Option<OwnedSemaphorePermit>,
}

/// Whether a request is being answered on a connection: an odd number of changes means yes.
#[derive(Clone, Default)]
pub(super) struct Activity(Arc<AtomicU64>);

/// Marks a connection as busy until dropped.
pub(super) struct Busy(Activity);

impl Bounded {
    /// Takes connections from `listener`, at most `connections_max` at once.
    pub(super) fn new(listener: TcpListener, connections_max: usize) -> Self {
        let places = Arc::new(Semaphore::new(connections_max));
        Bounded {
            listener,
            places,
            connections_max,
            patience: PATIENCE,
        }
    }

    /// Reads that may wait for a change at a time: fewer than connections, so that health checks
    /// and commands find a place whatever the readers do.
    pub(super) fn blocked_reads_max(&self) -> usize {
        self.connections_max - self.connections_max.div_ceil(RESERVED_SHARE)
    }

    /// The same with another patience.
    #[cfg(test)]
    pub(super) fn with_patience(self, patience: Duration) -> Self {
        Bounded { patience, ..self }
    }
}

impl Listener for Bounded {
    type Io = Connection;
    type Addr = SocketAddr;

    async fn accept(&mut self) -> (Connection, SocketAddr) {
        // Fails only when the semaphore is closed, which nobody does.
        let place = self.places.clone().acquire_owned().await.ok();
        loop {
            match self.listener.accept().await {
                Ok((stream, peer)) => {
                    return (Connection::new(stream, place, self.patience), peer);
                }
                Err(error) => {
                    tracing::warn!(%error, "cannot accept an HTTP connection");
                    tokio::time::sleep(ACCEPT_PAUSE).await;
                }
            }
        }
    }

    fn local_addr(&self) -> io::Result<SocketAddr> {
        self.listener.local_addr()
    }
}

impl Connection {
    fn new(stream: TcpStream, place: Option<OwnedSemaphorePermit>, length: Duration) -> Self {
        // Answers are written in one piece; waiting for more would only delay them.
        let _ = stream.set_nodelay(true);
        Connection {
            stream,
            activity: Activity::default(),
            patience: Box::pin(tokio::time::sleep(length)),
            length,
            phase: 0,
            _place: place,
        }
    }

    /// Fails once patience has run out; there is no limit while a request is being answered.
    ///
    /// The clock runs all the time, because nobody polls a connection when its answer is done.
    fn poll_patience<T>(&mut self, context: &mut Context<'_>) -> Poll<io::Result<T>> {
        loop {
            let phase = self.activity.phase();
            if phase != self.phase {
                self.phase = phase;
                self.restart();
            }
            ready!(self.patience.as_mut().poll(context));
            if !Activity::is_busy(phase) {
                return Poll::Ready(Err(io::ErrorKind::TimedOut.into()));
            }
            self.restart();
        }
    }

    fn restart(&mut self) {
        let deadline = Instant::now() + self.length;
        self.patience.as_mut().reset(deadline);
    }
}

impl AsyncRead for Connection {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        match Pin::new(&mut self.stream).poll_read(context, buffer) {
            Poll::Ready(result) => Poll::Ready(result),
            // Bytes that trickle in do not restart the clock.
            Poll::Pending => self.poll_patience(context),
        }
    }
}

impl AsyncWrite for Connection {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        match Pin::new(&mut self.stream).poll_write(context, bytes) {
            Poll::Ready(result) => {
                self.restart();
                Poll::Ready(result)
            }
            Poll::Pending => self.poll_patience(context),
        }
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(context)
    }
}

impl Activity {
    /// Marks the connection as busy until the result is dropped.
    pub(super) fn busy(&self) -> Busy {
        self.0.fetch_add(1, Ordering::AcqRel);
        Busy(self.clone())
    }

    fn phase(&self) -> u64 {
        self.0.load(Ordering::Acquire)
    }

    const fn is_busy(phase: u64) -> bool {
        !phase.is_multiple_of(2)
    }
}

impl Drop for Busy {
    fn drop(&mut self) {
        self.0.0.fetch_add(1, Ordering::AcqRel);
    }
}

impl Connected<IncomingStream<'_, Bounded>> for Activity {
    fn connect_info(stream: IncomingStream<'_, Bounded>) -> Self {
        stream.io().activity.clone()
    }
}
