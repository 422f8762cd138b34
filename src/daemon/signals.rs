//! What ends an agent: signals, and for a child of `rumord dev` the end of its stdin.

use std::io;
use std::thread;

use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio::sync::oneshot;

/// Whether the agent also ends when its stdin does.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum StdinRole {
    /// Stdin means nothing.
    Ignored,
    /// Its end asks the agent to leave, so that it never outlives whoever started it.
    Leash,
}

/// Why the agent was asked to end.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Request {
    /// SIGINT.
    Interrupt,
    /// SIGTERM.
    Terminate,
    /// Stdin ended.
    StdinEnded,
}

/// Listens for requests to end.
pub(super) struct Requests {
    interrupt: Signal,
    terminate: Signal,
    hangup: Signal,
    /// Listened to so that a limit on the size of files is an error of the write, not an end.
    _file_size: Signal,
    leash: Option<oneshot::Receiver<()>>,
}

impl Request {
    /// The process's exit code when this cuts an orderly end short.
    pub(super) const fn exit_code(self) -> u8 {
        match self {
            Request::Interrupt => 128 + 2,
            Request::Terminate => 128 + 15,
            Request::StdinEnded => 1,
        }
    }

    /// The word for log lines.
    pub(super) const fn as_str(self) -> &'static str {
        match self {
            Request::Interrupt => "SIGINT",
            Request::Terminate => "SIGTERM",
            Request::StdinEnded => "end of stdin",
        }
    }
}

impl Requests {
    /// Starts listening; from here on signals no longer kill the process.
    ///
    /// # Errors
    /// The system refused a signal handler or a thread.
    pub(super) fn listen(stdin: StdinRole) -> io::Result<Self> {
        let leash = match stdin {
            StdinRole::Ignored => None,
            StdinRole::Leash => Some(watch_stdin()?),
        };
        Ok(Requests {
            interrupt: signal(SignalKind::interrupt())?,
            terminate: signal(SignalKind::terminate())?,
            hangup: signal(SignalKind::hangup())?,
            _file_size: signal(SignalKind::from_raw(rustix::process::Signal::XFSZ.as_raw()))?,
            leash,
        })
    }

    /// Waits for the next request to end.
    pub(super) async fn next(&mut self) -> Request {
        loop {
            tokio::select! {
                Some(()) = self.interrupt.recv() => return Request::Interrupt,
                Some(()) = self.terminate.recv() => return Request::Terminate,
                () = ended(&mut self.leash) => return Request::StdinEnded,
                Some(()) = self.hangup.recv() => tracing::info!(
                    "SIGHUP: settings are read at start; restart the agent to apply changes"
                ),
            }
        }
    }
}

/// Waits for the leash's end, which is told once.
async fn ended(leash: &mut Option<oneshot::Receiver<()>>) {
    match leash {
        Some(receiver) => {
            let _ = receiver.await;
            *leash = None;
        }
        None => std::future::pending().await,
    }
}

/// On a thread of its own: a runtime cannot be shut down while one of its threads reads stdin.
fn watch_stdin() -> io::Result<oneshot::Receiver<()>> {
    let (end, ended) = oneshot::channel();
    thread::Builder::new().name("stdin".into()).spawn(move || {
        // An error ends it as well: nobody holds the other side any more.
        let _ = io::copy(&mut io::stdin().lock(), &mut io::sink());
        drop(end);
    })?;
    Ok(ended)
}
