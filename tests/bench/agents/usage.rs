//! What an agent has used, as the system and the agent itself say.

use crate::agent::Agent;

/// Clock ticks per second in /proc: fixed by the kernel's interface.
const TICKS_PER_SECOND: f64 = 100.0;
/// IPv4 and UDP headers of one datagram.
const DATAGRAM_HEADER_BYTES: f64 = 28.0;

/// Counters of an agent at one instant.
pub struct Usage {
    /// CPU time used.
    pub cpu_ms: f64,
    /// Resident memory.
    pub resident_mib: f64,
    /// Sent by UDP, headers included.
    pub udp_bytes: f64,
    /// Sent by TCP, payload.
    pub tcp_bytes: f64,
}

impl Usage {
    /// Of `agent`, now.
    pub fn of(agent: &Agent) -> Self {
        let proc = |file: &str| {
            std::fs::read_to_string(format!("/proc/{}/{file}", agent.pid()))
                .expect("the agent runs")
        };
        let stat = proc("stat");
        let fields: Vec<&str> = stat
            .rsplit(')')
            .next()
            .unwrap_or("")
            .split_whitespace()
            .collect();
        let ticks = |place: usize| fields[place].parse::<f64>().expect("a number");
        let status = proc("status");
        let resident_kib: f64 = status
            .lines()
            .find_map(|line| line.strip_prefix("VmRSS:"))
            .and_then(|rest| rest.split_whitespace().next()?.parse().ok())
            .expect("VmRSS is there");
        let datagram = "transport=\"datagram\"";
        let sent = "direction=\"sent\"";
        let datagrams = agent.metric("rumord_messages_total", &[sent, datagram]);
        let payload = agent.metric("rumord_bytes_total", &[sent, datagram]);
        Usage {
            // utime and stime are fields 14 and 15 of stat: 11 and 12 after the name.
            cpu_ms: (ticks(11) + ticks(12)) * 1000.0 / TICKS_PER_SECOND,
            resident_mib: resident_kib / 1024.0,
            udp_bytes: payload + datagrams * DATAGRAM_HEADER_BYTES,
            tcp_bytes: agent.metric("rumord_bytes_total", &[sent, "transport=\"stream\""]),
        }
    }
}
