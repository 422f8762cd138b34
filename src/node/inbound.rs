//! Streams that peers open: their requests go to the core, its answer goes back.

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use tokio::net::tcp::OwnedReadHalf;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{Semaphore, mpsc, oneshot};
use tokio::time::{sleep, timeout};

use super::driver::StreamInput;
use super::outbound::{read_frame, write_frames};
use crate::protocol::StreamId;

/// Streams served at a time; further ones wait to be accepted.
const STREAMS_MAX: usize = 256;
/// How long one frame of a request may take: slow senders are cut so that others are served.
const FRAME_TIMEOUT: Duration = Duration::from_secs(2);
/// How long a stream may take in all.
const STREAM_TIMEOUT: Duration = Duration::from_secs(10);
/// Most frames of one request.
const FRAMES_MAX: usize = 4096;
/// Pause after a failed accept: out of file descriptors, it would fail again at once.
const ACCEPT_PAUSE: Duration = Duration::from_millis(50);

/// Accepts streams for as long as the driver listens.
pub(super) async fn serve(listener: TcpListener, inputs: mpsc::Sender<StreamInput>) {
    let places = Arc::new(Semaphore::new(STREAMS_MAX));
    let mut next = 0;
    while let Ok(place) = Arc::clone(&places).acquire_owned().await {
        match listener.accept().await {
            Ok((stream, from)) => {
                next += 1;
                let inputs = inputs.clone();
                tokio::spawn(async move {
                    serve_stream(StreamId(next), stream, from, inputs).await;
                    drop(place);
                });
            }
            Err(error) => {
                tracing::warn!(%error, "cannot accept a stream");
                sleep(ACCEPT_PAUSE).await;
            }
        }
        if inputs.is_closed() {
            return;
        }
    }
}

async fn serve_stream(
    stream: StreamId,
    socket: TcpStream,
    from: SocketAddr,
    inputs: mpsc::Sender<StreamInput>,
) {
    match timeout(STREAM_TIMEOUT, converse(stream, socket, from, &inputs)).await {
        Ok(Ok(())) => {}
        Ok(Err(error)) => tracing::debug!(%from, %error, "a peer's stream failed"),
        Err(_) => tracing::debug!(%from, "a peer's stream took too long"),
    }
    // An error means that the driver has stopped.
    let _ = inputs.send(StreamInput::Closed { stream }).await;
}

async fn converse(
    stream: StreamId,
    socket: TcpStream,
    from: SocketAddr,
    inputs: &mpsc::Sender<StreamInput>,
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
        read = read_requests(stream, from, &mut reader, inputs) => {
            match read? {
                // Who asks nothing waits for nothing: a health check of the port, or a scan.
                0 => return Ok(()),
                _ => answer.await,
            }
        }
    };
    match frames {
        Ok(frames) => write_frames(&mut writer, &frames).await,
        // The core had nothing to say.
        Err(_) => Ok(()),
    }
}

/// Hands the frames of a request to the core until the peer has sent all; returns how many.
async fn read_requests(
    stream: StreamId,
    from: SocketAddr,
    reader: &mut OwnedReadHalf,
    inputs: &mpsc::Sender<StreamInput>,
) -> io::Result<usize> {
    for count in 0..FRAMES_MAX {
        let frame = match timeout(FRAME_TIMEOUT, read_frame(reader)).await {
            Ok(frame) => frame?,
            Err(_) => return Err(io::ErrorKind::TimedOut.into()),
        };
        let Some(frame) = frame else {
            return Ok(count);
        };
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
