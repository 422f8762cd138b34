//! Streams that peers open: their requests go to the core, its answer goes back.
//!
//! A peer that sends slowly, or takes its answer slowly, costs nobody else anything: each frame
//! has a deadline, and when all places are taken the stream that has waited longest for its request
//! is cut. An honest request is there within a round trip.

use std::collections::BTreeMap;
use std::io;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::net::tcp::OwnedReadHalf;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{Semaphore, mpsc, oneshot};
use tokio::time::{sleep, timeout};

use super::outbound::{read_frame, write_frames};
use crate::protocol::{ExchangeId, StreamId};

/// Streams served at a time; a further one takes the place of one whose request is overdue.
const STREAMS_MAX: usize = 256;
/// How long one frame of a request may take: slow senders are cut so that others are served.
const FRAME_TIMEOUT: Duration = Duration::from_secs(2);
/// How long a stream may take in all.
const STREAM_TIMEOUT: Duration = Duration::from_secs(10);
/// Most frames of one request.
const FRAMES_MAX: usize = 4096;
/// Pause after a failed accept: out of file descriptors, it would fail again at once.
const ACCEPT_PAUSE: Duration = Duration::from_millis(50);

/// The streams whose request is not complete, each with what cuts it: first those of which no
/// frame has come, in the order of opening.
#[derive(Debug, Default)]
struct Unread(Mutex<BTreeMap<(bool, StreamId), oneshot::Sender<()>>>);

impl Unread {
    fn lock(&self) -> MutexGuard<'_, BTreeMap<(bool, StreamId), oneshot::Sender<()>>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Enters a stream; what is returned ends when it is to be cut.
    fn enter(&self, stream: StreamId) -> oneshot::Receiver<()> {
        let (cut, is_cut) = oneshot::channel();
        self.lock().insert((false, stream), cut);
        is_cut
    }

    /// A frame of `stream` has come.
    fn note_frame(&self, stream: StreamId) {
        let mut unread = self.lock();
        if let Some(cut) = unread.remove(&(false, stream)) {
            unread.insert((true, stream), cut);
        }
    }

    /// The request of `stream` is complete, or never will be.
    fn leave(&self, stream: StreamId) {
        let mut unread = self.lock();
        unread.remove(&(false, stream));
        unread.remove(&(true, stream));
    }

    /// Cuts the stream that has waited longest.
    fn cut_one(&self) {
        // To drop the sender ends the receiver.
        if let Some(((_, stream), _)) = self.lock().pop_first() {
            tracing::debug!(?stream, "a stream is cut to make room");
        }
    }
}

/// What the tasks that serve streams tell the driver.
#[derive(Debug)]
pub(super) enum StreamInput {
    /// A peer has opened a stream; its answer goes to `reply`.
    Opened {
        stream: StreamId,
        reply: oneshot::Sender<Vec<Vec<u8>>>,
    },
    /// A frame of a peer's request.
    Request {
        stream: StreamId,
        from: SocketAddr,
        frame: Vec<u8>,
    },
    /// A peer's stream is closed.
    Closed { stream: StreamId },
    /// A frame that answers a request of this node.
    Reply {
        exchange: ExchangeId,
        frame: Vec<u8>,
    },
    /// A stream of this node has ended.
    Ended { exchange: ExchangeId },
}

/// Accepts streams for as long as the driver listens.
pub(super) async fn serve(listener: TcpListener, inputs: mpsc::Sender<StreamInput>) {
    let places = Arc::new(Semaphore::new(STREAMS_MAX));
    let unread = Arc::new(Unread::default());
    let mut next = 0;
    while !inputs.is_closed() {
        match listener.accept().await {
            Ok((stream, from)) => {
                if places.available_permits() == 0 {
                    unread.cut_one();
                }
                let Ok(place) = Arc::clone(&places).acquire_owned().await else {
                    return;
                };
                next += 1;
                let (inputs, unread) = (inputs.clone(), Arc::clone(&unread));
                tokio::spawn(async move {
                    serve_stream(StreamId(next), stream, from, &inputs, &unread).await;
                    drop(place);
                });
            }
            Err(error) => {
                tracing::warn!(%error, "cannot accept a stream");
                sleep(ACCEPT_PAUSE).await;
            }
        }
    }
}

async fn serve_stream(
    stream: StreamId,
    socket: TcpStream,
    from: SocketAddr,
    inputs: &mpsc::Sender<StreamInput>,
    unread: &Unread,
) {
    let is_cut = unread.enter(stream);
    let served = converse(stream, socket, from, (inputs, unread), is_cut);
    match timeout(STREAM_TIMEOUT, served).await {
        Ok(Ok(())) => {}
        Ok(Err(error)) => tracing::debug!(%from, %error, "a peer's stream failed"),
        Err(_) => tracing::debug!(%from, "a peer's stream took too long"),
    }
    unread.leave(stream);
    // An error means that the driver has stopped.
    let _ = inputs.send(StreamInput::Closed { stream }).await;
}

async fn converse(
    stream: StreamId,
    socket: TcpStream,
    from: SocketAddr,
    (inputs, unread): (&mpsc::Sender<StreamInput>, &Unread),
    is_cut: oneshot::Receiver<()>,
) -> io::Result<()> {
    socket.set_nodelay(true)?;
    let (mut reader, mut writer) = socket.into_split();
    let (reply, mut answer) = oneshot::channel();
    if inputs
        .send(StreamInput::Opened { stream, reply })
        .await
        .is_err()
    {
        return Ok(());
    }
    let frames = tokio::select! {
        biased;
        answer = &mut answer => answer,
        read = read_requests((stream, from), &mut reader, inputs, unread) => {
            match read? {
                // Who asks nothing waits for nothing: a health check of the port, or a scan.
                0 => return Ok(()),
                _ => {
                    unread.leave(stream);
                    answer.await
                }
            }
        }
        _ = is_cut => return Err(io::ErrorKind::TimedOut.into()),
    };
    unread.leave(stream);
    match frames {
        Ok(frames) => write_frames(&mut writer, &frames).await,
        // The core had nothing to say.
        Err(_) => Ok(()),
    }
}

/// Hands the frames of a request to the core until the peer has sent all; returns how many.
async fn read_requests(
    (stream, from): (StreamId, SocketAddr),
    reader: &mut OwnedReadHalf,
    inputs: &mpsc::Sender<StreamInput>,
    unread: &Unread,
) -> io::Result<usize> {
    for count in 0..FRAMES_MAX {
        let frame = match timeout(FRAME_TIMEOUT, read_frame(reader)).await {
            Ok(frame) => frame?,
            Err(_) => return Err(io::ErrorKind::TimedOut.into()),
        };
        let Some(frame) = frame else {
            return Ok(count);
        };
        unread.note_frame(stream);
        if inputs
            .send(StreamInput::Request {
                stream,
                from,
                frame,
            })
            .await
            .is_err()
        {
            return Ok(count);
        }
    }
    Err(io::Error::new(
        io::ErrorKind::InvalidData,
        "a request has too many frames",
    ))
}
