//! A name server that answers from a table, which the test changes as it goes.

use std::collections::BTreeMap;
use std::net::{IpAddr, UdpSocket};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use crate::host::Host;

const A: u16 = 1;
const AAAA: u16 = 28;
const SRV: u16 = 33;
const NXDOMAIN: u8 = 3;
/// How soon it ends when the test does.
const PATIENCE: Duration = Duration::from_millis(100);

/// What a name stands for.
#[derive(Clone)]
pub enum Record {
    /// An A or AAAA record.
    Address(IpAddr),
    /// An SRV record: a port, and a host's full name.
    Service(u16, &'static str),
}

/// A running name server. It ends when dropped.
pub struct NameServer {
    table: Arc<Mutex<BTreeMap<String, Vec<Record>>>>,
    asked: Arc<AtomicUsize>,
    stop: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl NameServer {
    /// On `host`, on the usual port of all its addresses; it knows no name.
    pub fn on(host: &Host) -> Self {
        let socket = host.inside(|| UdpSocket::bind(("::", 53)).expect("the port is free"));
        socket.set_read_timeout(Some(PATIENCE)).expect("a length");
        let table: Arc<Mutex<BTreeMap<String, Vec<Record>>>> = Arc::default();
        let (asked, stop) = (Arc::<AtomicUsize>::default(), Arc::<AtomicBool>::default());
        let (names, questions, end) = (Arc::clone(&table), Arc::clone(&asked), Arc::clone(&stop));
        let serve = move || {
            let mut buffer = [0; 512];
            while !end.load(Ordering::Relaxed) {
                let Ok((bytes, from)) = socket.recv_from(&mut buffer) else {
                    continue;
                };
                questions.fetch_add(1, Ordering::Relaxed);
                let table = names.lock().unwrap_or_else(PoisonError::into_inner);
                if let Some(answer) = answer(&buffer[..bytes], &table) {
                    // Who asked may have gone.
                    let _ = socket.send_to(&answer, from);
                }
            }
        };
        NameServer {
            table,
            asked,
            stop,
            thread: Some(thread::spawn(serve)),
        }
    }

    /// From now on `name` stands for `records`; for a name without any, that it exists.
    pub fn set(&self, name: &str, records: Vec<Record>) {
        let mut table = self.table.lock().unwrap_or_else(PoisonError::into_inner);
        table.insert(name.to_owned(), records);
    }

    /// From now on `name` stands for these addresses.
    pub fn set_addresses(&self, name: &str, addresses: &[IpAddr]) {
        let records = addresses.iter().copied().map(Record::Address);
        self.set(name, records.collect());
    }

    /// How many questions it has had.
    pub fn asked(&self) -> usize {
        self.asked.load(Ordering::Relaxed)
    }
}

impl Drop for NameServer {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        if let Some(thread) = self.thread.take() {
            // A panic in it has been printed.
            let _ = thread.join();
        }
    }
}

/// The answer to a question about one name (RFC 1035 §4); `None` for anything else.
fn answer(question: &[u8], table: &BTreeMap<String, Vec<Record>>) -> Option<Vec<u8>> {
    let (name, end) = read_name(question, 12)?;
    let kind = u16::from_be_bytes(question.get(end..end + 2)?.try_into().ok()?);
    let known = table.get(&name.to_ascii_lowercase());
    let records: Vec<Vec<u8>> = known
        .into_iter()
        .flatten()
        .filter_map(|record| data(record, kind))
        .collect();
    let code = if known.is_none() { NXDOMAIN } else { 0 };
    let mut answer = question.get(..2)?.to_vec();
    // An answer, recursion desired and available.
    answer.extend([0x81, 0x80 | code, 0, 1, 0, records.len() as u8, 0, 0, 0, 0]);
    answer.extend(question.get(12..end + 4)?);
    for data in records {
        // The name of the question, this type, class IN, time to live 0.
        answer.extend([0xc0, 12, 0, kind as u8, 0, 1, 0, 0, 0, 0]);
        answer.extend((data.len() as u16).to_be_bytes());
        answer.extend(data);
    }
    Some(answer)
}

fn read_name(message: &[u8], start: usize) -> Option<(String, usize)> {
    let (mut labels, mut at) = (Vec::new(), start);
    loop {
        let length = usize::from(*message.get(at)?);
        at += 1;
        if length == 0 {
            return Some((labels.join("."), at));
        }
        let label = message.get(at..at + length)?;
        labels.push(String::from_utf8_lossy(label).into_owned());
        at += length;
    }
}

/// The data of `record` if it is of the type `kind`.
fn data(record: &Record, kind: u16) -> Option<Vec<u8>> {
    match (record, kind) {
        (Record::Address(IpAddr::V4(ip)), A) => Some(ip.octets().to_vec()),
        (Record::Address(IpAddr::V6(ip)), AAAA) => Some(ip.octets().to_vec()),
        (Record::Service(port, host), SRV) => {
            let mut data = vec![0, 0, 0, 0];
            data.extend(port.to_be_bytes());
            for label in host.split('.') {
                data.push(label.len() as u8);
                data.extend(label.as_bytes());
            }
            data.push(0);
            Some(data)
        }
        _ => None,
    }
}
