//! The smallest HTTP/1.1 client that keeps its connection and costs the machine little.

use std::io;

use tokio::io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader};
use tokio::net::TcpStream;

/// Longest line of an answer's head, in bytes, and most lines.
const LINE_BYTES_MAX: u64 = 8 * 1024;
const LINES_MAX: usize = 100;
/// Largest body, in bytes.
const BODY_BYTES_MAX: usize = 4 * 1024 * 1024;

/// One connection to a daemon.
pub(super) struct Connection {
    stream: BufReader<TcpStream>,
    line: String,
}

/// A status and a body.
pub(super) struct Answer {
    pub(super) status: u16,
    pub(super) body: Vec<u8>,
}

impl Connection {
    /// Connects to `authority`, a host with a port.
    pub(super) async fn open(authority: &str) -> io::Result<Self> {
        let stream = TcpStream::connect(authority).await?;
        stream.set_nodelay(true)?;
        Ok(Connection {
            stream: BufReader::new(stream),
            line: String::new(),
        })
    }

    /// Sends a request, and reads its answer.
    pub(super) async fn ask(&mut self, request: &[u8]) -> io::Result<Answer> {
        self.stream.get_mut().write_all(request).await?;
        let status = self.next_line().await?;
        let status = status.split(' ').nth(1).and_then(|word| word.parse().ok());
        let status = status.ok_or_else(|| foreign("no status"))?;
        let mut length = 0;
        for _ in 0..LINES_MAX {
            let line = self.next_line().await?;
            if line.is_empty() {
                return Ok(Answer {
                    status,
                    body: self.body(length).await?,
                });
            }
            let (name, value) = line.split_once(':').unwrap_or((line, ""));
            if name.eq_ignore_ascii_case("content-length") {
                length = value.trim().parse().map_err(|_| foreign("a bad length"))?;
            }
        }
        Err(foreign("too many headers"))
    }

    async fn next_line(&mut self) -> io::Result<&str> {
        self.line.clear();
        let mut limited = (&mut self.stream).take(LINE_BYTES_MAX);
        limited.read_line(&mut self.line).await?;
        match self.line.strip_suffix("\r\n") {
            Some(line) => Ok(line),
            None => Err(io::ErrorKind::UnexpectedEof.into()),
        }
    }

    async fn body(&mut self, length: usize) -> io::Result<Vec<u8>> {
        if length > BODY_BYTES_MAX {
            return Err(foreign("too large a body"));
        }
        let mut body = vec![0; length];
        self.stream.read_exact(&mut body).await?;
        Ok(body)
    }
}

fn foreign(what: &str) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, what)
}
