//! A writer that never makes its callers wait: a thread writes, a full queue drops and counts.
//!
//! Whoever reads stderr (a pipe, a container runtime) may stop reading. Without this the next log
//! line would stop the protocol.

use std::io::{self, Write};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, Sender, SyncSender, channel, sync_channel};
use std::thread;
use std::time::{Duration, Instant};

use tracing_subscriber::fmt::MakeWriter;

/// Lines that may wait to be written.
const LINES_MAX: usize = 8192;
/// How long the end of the process may wait for the last lines.
const FLUSH_TIMEOUT: Duration = Duration::from_millis(500);
/// Pause before a full queue is tried again while flushing.
const FLUSH_PAUSE: Duration = Duration::from_millis(5);

/// What the writing thread is told.
enum Message {
    Line(Vec<u8>),
    /// Answer when everything before this is written.
    Flush(Sender<()>),
}

/// Hands whole lines to a writing thread.
#[derive(Clone)]
pub(super) struct LineWriter {
    messages: SyncSender<Message>,
    dropped: Arc<AtomicU64>,
}

/// One line being formatted; it is handed over when dropped.
pub(super) struct Line<'a> {
    bytes: Vec<u8>,
    writer: &'a LineWriter,
}

impl LineWriter {
    /// Starts the thread that writes to `sink`.
    ///
    /// # Errors
    /// The system gave no thread.
    pub(super) fn start(sink: impl Write + Send + 'static) -> io::Result<Self> {
        Self::with_capacity(sink, LINES_MAX)
    }

    fn with_capacity(sink: impl Write + Send + 'static, capacity: usize) -> io::Result<Self> {
        let (messages, queue) = sync_channel(capacity);
        let dropped = Arc::new(AtomicU64::new(0));
        let count = dropped.clone();
        thread::Builder::new()
            .name("log".into())
            .spawn(move || write(queue, sink, &count))?;
        Ok(LineWriter { messages, dropped })
    }

    /// Waits, briefly, until the lines so far are written.
    pub(super) fn flush(&self) {
        let deadline = Instant::now() + FLUSH_TIMEOUT;
        let (done, written) = channel();
        while self
            .messages
            .try_send(Message::Flush(done.clone()))
            .is_err()
        {
            if Instant::now() >= deadline {
                return;
            }
            thread::sleep(FLUSH_PAUSE);
        }
        let _ = written.recv_timeout(deadline.saturating_duration_since(Instant::now()));
    }
}

/// Writes until all writers are gone. A sink that fails is not worth failing for.
fn write(queue: Receiver<Message>, mut sink: impl Write, dropped: &AtomicU64) {
    for message in queue {
        let _ = match message {
            Message::Line(line) => sink.write_all(&line),
            Message::Flush(done) => {
                let _ = done.send(());
                Ok(())
            }
        };
        let lost = dropped.swap(0, Ordering::Relaxed);
        if lost > 0 {
            let _ = writeln!(sink, "{{\"level\":\"WARN\",\"log_lines_dropped\":{lost}}}");
        }
    }
}

impl<'a> MakeWriter<'a> for LineWriter {
    type Writer = Line<'a>;

    fn make_writer(&'a self) -> Line<'a> {
        Line {
            bytes: Vec::with_capacity(256),
            writer: self,
        }
    }
}

impl Write for Line<'_> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.bytes.extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl Drop for Line<'_> {
    fn drop(&mut self) {
        let bytes = std::mem::take(&mut self.bytes);
        if !bytes.is_empty() && self.writer.messages.try_send(Message::Line(bytes)).is_err() {
            self.writer.dropped.fetch_add(1, Ordering::Relaxed);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc::{Sender, channel};

    use super::*;

    /// Blocks in every write until a token arrives, then tells what was written.
    struct Gate {
        tokens: Receiver<()>,
        written: Sender<String>,
    }

    impl Write for Gate {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            self.tokens.recv().map_err(io::Error::other)?;
            let text = String::from_utf8_lossy(bytes).into_owned();
            self.written.send(text).map_err(io::Error::other)?;
            Ok(bytes.len())
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    #[test]
    fn a_reader_that_stops_costs_lines_not_time() {
        let (open, tokens) = channel();
        let (written, seen) = channel();
        let writer = LineWriter::with_capacity(Gate { tokens, written }, 2).expect("thread");
        for n in 0..50 {
            writer
                .make_writer()
                .write_all(format!("line {n}\n").as_bytes())
                .expect("queued");
        }
        for _ in 0..8 {
            open.send(()).expect("writer runs");
        }
        drop(open);
        drop(writer);
        let lines: Vec<String> = seen.iter().collect();
        assert_eq!(lines[0], "line 0\n");
        assert!(
            lines.iter().any(|line| line.contains("log_lines_dropped")),
            "{lines:?}"
        );
    }
}
