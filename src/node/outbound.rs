//! Streams that this node opens: one request, the frames that answer it, and its end.

use std::io;
use std::net::SocketAddr;
use std::time::Duration;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::net::tcp::{OwnedReadHalf, OwnedWriteHalf};
use tokio::sync::mpsc;
use tokio::time::timeout;

use super::inbound::StreamInput;
use crate::protocol::ExchangeId;
use crate::wire::STREAM_FRAME_BYTES_MAX;

/// How long a chunk of a frame may take to be sent: a peer that takes nothing is given up.
const CHUNK_TIMEOUT: Duration = Duration::from_secs(2);
const CHUNK_BYTES: usize = 16 * 1024;

/// A stream to be opened.
#[derive(Debug)]
pub(super) struct Request {
    pub(super) exchange: ExchangeId,
    pub(super) to: SocketAddr,
    pub(super) frames: Vec<Vec<u8>>,
    pub(super) timeout: Duration,
}

/// Opens the stream, sends the request, hands on every frame that comes back, and reports the end.
pub(super) async fn run(request: Request, inputs: mpsc::Sender<StreamInput>) {
    let Request {
        exchange,
        to,
        frames,
        timeout: limit,
    } = request;
    let outcome = timeout(limit, converse(exchange, to, &frames, &inputs)).await;
    match outcome {
        Ok(Ok(())) => {}
        Ok(Err(error)) => tracing::debug!(%to, %error, "a stream failed"),
        Err(_) => tracing::debug!(%to, ?limit, "a stream took too long"),
    }
    // An error means that the driver has stopped: nobody waits for this end.
    let _ = inputs.send(StreamInput::Ended { exchange }).await;
}

async fn converse(
    exchange: ExchangeId,
    to: SocketAddr,
    frames: &[Vec<u8>],
    inputs: &mpsc::Sender<StreamInput>,
) -> io::Result<()> {
    let stream = TcpStream::connect(to).await?;
    stream.set_nodelay(true)?;
    let (mut reader, mut writer) = stream.into_split();
    write_frames(&mut writer, frames).await?;
    while let Some(frame) = read_frame(&mut reader).await? {
        if inputs
            .send(StreamInput::Reply { exchange, frame })
            .await
            .is_err()
        {
            break;
        }
    }
    Ok(())
}

/// Sends `frames`, each after its length, and closes the sending side.
pub(super) async fn write_frames(
    writer: &mut OwnedWriteHalf,
    frames: &[Vec<u8>],
) -> io::Result<()> {
    for frame in frames {
        let length = u32::try_from(frame.len()).map_err(io::Error::other)?;
        let mut bytes = Vec::with_capacity(frame.len() + 4);
        bytes.extend_from_slice(&length.to_be_bytes());
        bytes.extend_from_slice(frame);
        for chunk in bytes.chunks(CHUNK_BYTES) {
            match timeout(CHUNK_TIMEOUT, writer.write_all(chunk)).await {
                Ok(sent) => sent?,
                Err(_) => return Err(io::ErrorKind::TimedOut.into()),
            }
        }
    }
    writer.shutdown().await
}

/// The next frame; `None` when the peer has closed its side.
pub(super) async fn read_frame(reader: &mut OwnedReadHalf) -> io::Result<Option<Vec<u8>>> {
    let mut length = [0; 4];
    match reader.read_exact(&mut length).await {
        Ok(_) => {}
        Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => return Ok(None),
        Err(error) => return Err(error),
    }
    let length = usize::try_from(u32::from_be_bytes(length)).unwrap_or(usize::MAX);
    if length > STREAM_FRAME_BYTES_MAX {
        return Err(io::Error::new(
            io::ErrorKind::InvalidData,
            "a frame exceeds its limit",
        ));
    }
    // Read as it arrives: a claimed length takes no memory before the bytes are there.
    let mut frame = Vec::new();
    reader.take(length as u64).read_to_end(&mut frame).await?;
    if frame.len() < length {
        return Err(io::ErrorKind::UnexpectedEof.into());
    }
    Ok(Some(frame))
}
