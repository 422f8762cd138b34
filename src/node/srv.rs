//! SRV lookups (RFC 2782): which hosts and ports a service name stands for.
//!
//! The system's resolver knows addresses only, so these questions are put to its name servers here:
//! over UDP, and over TCP when the answer does not fit a datagram.

use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

use domain::base::iana::{Class, Rcode, Rtype};
use domain::base::{Message, MessageBuilder, Name};
use domain::rdata::Srv;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpStream, UdpSocket};
use tokio::time::timeout;

use super::resolv_conf::ResolvConf;

/// Most hosts taken of one service.
const TARGETS_MAX: usize = 64;
/// Largest datagram that can arrive; no larger answer than 512 bytes is asked for, because that
/// size passes everywhere.
const DATAGRAM_BYTES: usize = 65_536;

type Answer = Message<Vec<u8>>;

/// A host of a service.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(super) struct Target {
    /// Smaller is better.
    priority: u16,
    /// A full name, without the last dot.
    pub(super) host: String,
    /// Where the service listens there.
    pub(super) port: u16,
}

/// The hosts behind the service `name`, the best first, each once; or why there are none.
pub(super) async fn look_up(name: &str, conf: &ResolvConf) -> Result<Vec<Target>, String> {
    let mut reason = String::new();
    for candidate in conf.candidates(name) {
        let question = question(&candidate)?;
        let answer = ask(&question, conf).await?;
        let mut targets = targets(&answer);
        targets.sort();
        targets.dedup();
        targets.truncate(TARGETS_MAX);
        if !targets.is_empty() {
            return Ok(targets);
        }
        // That of the first candidate: the others are further guesses.
        if reason.is_empty() {
            reason = match answer.header().rcode() {
                Rcode::NXDOMAIN => format!("there is no name {candidate}"),
                _ => format!("{candidate} has no SRV records"),
            };
        }
    }
    Err(reason)
}

fn question(name: &str) -> Result<Answer, String> {
    let unfit = |error: &dyn std::fmt::Display| format!("{name} is no DNS name: {error}");
    let name = Name::vec_from_str(name).map_err(|error| unfit(&error))?;
    let mut id = [0; 2];
    getrandom::fill(&mut id).map_err(|error| error.to_string())?;
    let builder = MessageBuilder::from_target(Vec::new()).map_err(|error| error.to_string())?;
    let mut builder = builder.question();
    builder.header_mut().set_id(u16::from_be_bytes(id));
    builder.header_mut().set_rd(true);
    builder
        .push((&name, Rtype::SRV, Class::IN))
        .map_err(|error| error.to_string())?;
    Message::from_octets(builder.finish()).map_err(|error| error.to_string())
}

/// Asks the servers in turn until one answers that the name has records, or has none.
async fn ask(question: &Answer, conf: &ResolvConf) -> Result<Answer, String> {
    let mut reason = String::from("no name server answered");
    for _ in 0..conf.attempts {
        for &server in &conf.servers {
            match timeout(conf.timeout, converse(question, server)).await {
                Ok(Ok(answer)) => match answer.header().rcode() {
                    Rcode::NOERROR | Rcode::NXDOMAIN => return Ok(answer),
                    code => reason = format!("the name server {server} answered {code}"),
                },
                Ok(Err(error)) => reason = format!("the name server {server}: {error}"),
                Err(_) => reason = format!("the name server {server} did not answer"),
            }
        }
    }
    Err(reason)
}

async fn converse(question: &Answer, server: SocketAddr) -> io::Result<Answer> {
    let answer = over_udp(question, server).await?;
    if !answer.header().tc() {
        return Ok(answer);
    }
    // Some networks let no TCP through to their name servers: a part is better than nothing.
    Ok(over_tcp(question, server).await.unwrap_or(answer))
}

async fn over_udp(question: &Answer, server: SocketAddr) -> io::Result<Answer> {
    let any: IpAddr = match server {
        SocketAddr::V4(_) => Ipv4Addr::UNSPECIFIED.into(),
        SocketAddr::V6(_) => Ipv6Addr::UNSPECIFIED.into(),
    };
    let socket = UdpSocket::bind(SocketAddr::new(any, 0)).await?;
    socket.connect(server).await?;
    socket.send(question.as_slice()).await?;
    let mut buffer = vec![0; DATAGRAM_BYTES];
    loop {
        let bytes = socket.recv(&mut buffer).await?;
        // Anything else is late, or forged.
        if let Ok(answer) = Message::from_octets(buffer[..bytes].to_vec())
            && answer.is_answer(question)
        {
            return Ok(answer);
        }
    }
}

async fn over_tcp(question: &Answer, server: SocketAddr) -> io::Result<Answer> {
    let mut stream = TcpStream::connect(server).await?;
    let bytes = question.as_slice();
    let length = u16::try_from(bytes.len()).map_err(io::Error::other)?;
    let request = [&length.to_be_bytes(), bytes].concat();
    stream.write_all(&request).await?;
    let length = stream.read_u16().await?;
    let mut bytes = vec![0; usize::from(length)];
    stream.read_exact(&mut bytes).await?;
    let wrong = || io::Error::new(io::ErrorKind::InvalidData, "an answer to nothing asked");
    let answer = Message::from_octets(bytes).map_err(|_| wrong())?;
    if answer.is_answer(question) {
        Ok(answer)
    } else {
        Err(wrong())
    }
}

/// The hosts in `answer`, also behind aliases. A service that says it is not offered (target `.`)
/// has none.
fn targets(answer: &Answer) -> Vec<Target> {
    let (Some(name), Ok(records)) = (answer.canonical_name(), answer.answer()) else {
        return Vec::new();
    };
    let records = records.limit_to_in::<Srv<_>>().flatten();
    let ours = records.filter(|record| *record.owner() == name);
    let offered = ours.filter(|record| !record.data().target().is_root());
    offered
        .map(|record| {
            let data = record.data();
            Target {
                priority: data.priority(),
                host: data.target().to_string(),
                port: data.port(),
            }
        })
        .filter(|target| target.port != 0)
        .collect()
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use domain::base::Ttl;
    use domain::base::iana::Opcode;
    use tokio::net::TcpListener;

    use super::*;

    /// An answer to the question in `asked` with these records, or, over UDP, only the first.
    fn reply(asked: &[u8], records: &[(&str, u16)], code: Rcode, truncated: bool) -> Vec<u8> {
        let asked = Message::from_octets(asked.to_vec()).expect("a question");
        let owner = asked.first_question().expect("one").into_qname();
        let builder = MessageBuilder::from_target(Vec::new()).expect("room");
        let mut answer = builder.start_answer(&asked, code).expect("room");
        assert_eq!(asked.header().opcode(), Opcode::QUERY);
        answer.header_mut().set_tc(truncated);
        let count = if truncated { 1 } else { records.len() };
        for (host, port) in &records[..count] {
            let target = Name::vec_from_str(host).expect("valid");
            let data = Srv::new(*port % 10, 0, *port, target);
            let record = (&owner, Class::IN, Ttl::from_secs(0), data);
            answer.push(record).expect("room");
        }
        answer.finish()
    }

    /// A name server on loopback that answers each question over UDP by `answer`, and over TCP with
    /// all the `records`.
    async fn server(
        records: &'static [(&'static str, u16)],
        answer: impl Fn(&[u8]) -> Option<Vec<u8>> + Send + 'static,
    ) -> SocketAddr {
        let tcp = TcpListener::bind("127.0.0.1:0").await.expect("a port");
        let address = tcp.local_addr().expect("bound");
        let udp = UdpSocket::bind(address).await.expect("free for UDP too");
        tokio::spawn(async move {
            let mut buffer = vec![0; 1500];
            while let Ok((bytes, from)) = udp.recv_from(&mut buffer).await {
                if let Some(reply) = answer(&buffer[..bytes]) {
                    udp.send_to(b"garbage", from).await.expect("loopback");
                    udp.send_to(&reply, from).await.expect("loopback");
                }
            }
        });
        tokio::spawn(async move {
            while let Ok((mut stream, _)) = tcp.accept().await {
                let length = stream.read_u16().await.expect("a length");
                let mut asked = vec![0; usize::from(length)];
                stream.read_exact(&mut asked).await.expect("a question");
                let reply = reply(&asked, records, Rcode::NOERROR, false);
                let length = u16::try_from(reply.len()).expect("short").to_be_bytes();
                let all = [&length, &reply[..]].concat();
                stream.write_all(&all).await.expect("it reads");
            }
        });
        address
    }

    fn conf(servers: &[SocketAddr]) -> ResolvConf {
        let mut conf = ResolvConf::parse("search example.org\n");
        conf.servers = servers.to_vec();
        conf.timeout = Duration::from_millis(300);
        conf.attempts = 1;
        conf
    }

    async fn found(name: &str, conf: &ResolvConf) -> Result<Vec<(String, u16)>, String> {
        let targets = look_up(name, conf).await?;
        let plain = targets.into_iter().map(|target| (target.host, target.port));
        Ok(plain.collect())
    }

    const RECORDS: [(&str, u16); 3] = [("n2.x.org", 7482), ("n1.x.org", 7481), ("n1.x.org", 7481)];

    #[tokio::test]
    async fn hosts_come_sorted_by_priority_and_each_once() {
        let address = server(&[], |asked| {
            Some(reply(asked, &RECORDS, Rcode::NOERROR, false))
        })
        .await;
        let expected = [("n1.x.org".into(), 7481), ("n2.x.org".into(), 7482)];
        assert_eq!(
            found("_rumord._tcp.x.org", &conf(&[address])).await,
            Ok(expected.into())
        );
    }

    #[tokio::test]
    async fn a_truncated_answer_is_asked_for_again_over_tcp() {
        let address = server(&RECORDS, |asked| {
            Some(reply(asked, &RECORDS, Rcode::NOERROR, true))
        })
        .await;
        let found = found("_rumord._tcp.x.org", &conf(&[address])).await;
        assert_eq!(found.map(|hosts| hosts.len()), Ok(2));
    }

    #[tokio::test]
    async fn a_silent_and_a_failing_server_are_passed_over() {
        let silent = server(&[], |_| None).await;
        let failing = server(&[], |asked| Some(reply(asked, &[], Rcode::SERVFAIL, false))).await;
        let good = server(&[], |asked| {
            Some(reply(asked, &RECORDS, Rcode::NOERROR, false))
        })
        .await;
        let found_by = |servers: Vec<SocketAddr>| async move {
            found("_rumord._tcp.x.org", &conf(&servers)).await
        };
        let hosts = found_by(vec![silent, failing, good]).await;
        assert_eq!(hosts.map(|hosts| hosts.len()), Ok(2));
        let error = found_by(vec![silent, failing]).await.expect_err("none");
        assert!(error.contains("SERVFAIL"), "{error}");
        let error = found_by(vec![silent]).await.expect_err("none");
        assert!(error.contains("did not answer"), "{error}");
    }

    #[tokio::test]
    async fn short_names_are_searched_and_missing_ones_named() {
        let address = server(&[], |asked| {
            let question = Message::from_octets(asked.to_vec()).expect("a question");
            let name = question.first_question().expect("one").into_qname();
            let full = name.to_string() == "_rumord._tcp.example.org";
            let code = if full {
                Rcode::NOERROR
            } else {
                Rcode::NXDOMAIN
            };
            let records = if full { &RECORDS[..] } else { &[] };
            Some(reply(asked, records, code, false))
        })
        .await;
        let hosts = found("_rumord._tcp", &conf(&[address])).await;
        assert_eq!(hosts.map(|hosts| hosts.len()), Ok(2));
        let error = found("_other._tcp.", &conf(&[address])).await;
        assert_eq!(error, Err("there is no name _other._tcp".into()));
        let error = found("_a..b", &conf(&[address]))
            .await
            .expect_err("no name");
        assert!(error.contains("is no DNS name"), "{error}");
    }

    /// RFC 2782: a target of `.` means that the service is decidedly not available.
    #[tokio::test]
    async fn a_service_that_is_not_offered_has_no_hosts() {
        let address = server(&[], |asked| {
            Some(reply(asked, &[(".", 7480)], Rcode::NOERROR, false))
        })
        .await;
        let error = found("_rumord._tcp.x.org", &conf(&[address])).await;
        assert_eq!(error, Err("_rumord._tcp.x.org has no SRV records".into()));
    }
}
