//! The gossip sockets: UDP and TCP on one port.

use std::io;
use std::net::SocketAddr;

use socket2::{Domain, Protocol, Socket, Type};
use tokio::net::{TcpListener, UdpSocket};

use super::options::StartError;

/// Kernel buffer wished for datagrams in each direction; what the system grants is enough.
const BUFFER_BYTES: usize = 2 * 1024 * 1024;
/// Datagrams dropped at a time: more than the largest kernel buffer holds.
const WAITING_MAX: usize = 1 << 20;
/// Connections that may wait to be accepted.
const BACKLOG: i32 = 256;
/// With port 0, how many free UDP ports are tried until their TCP port is free too.
const PORT_TRIES: usize = 64;

/// Both sockets, on the same port.
#[derive(Debug)]
pub(super) struct Sockets {
    pub(super) udp: UdpSocket,
    pub(super) tcp: TcpListener,
    pub(super) address: SocketAddr,
}

impl Sockets {
    /// Binds both. Port 0 takes any port that is free for both.
    pub(super) fn bind(address: SocketAddr) -> Result<Self, StartError> {
        let tries = if address.port() == 0 { PORT_TRIES } else { 1 };
        let mut last = None;
        for _ in 0..tries {
            match bind_pair(address) {
                Ok(sockets) => return Ok(sockets),
                Err(error) if error.kind() == io::ErrorKind::AddrInUse => last = Some(error),
                Err(source) => return Err(StartError::Bind { address, source }),
            }
        }
        let source = last.unwrap_or_else(|| io::ErrorKind::AddrInUse.into());
        Err(StartError::Bind { address, source })
    }
}

/// Drops the datagrams that wait in `udp`.
pub(super) fn drop_waiting(udp: &UdpSocket, buffer: &mut [u8]) {
    for _ in 0..WAITING_MAX {
        match udp.try_recv_from(buffer) {
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => return,
            Ok(_) | Err(_) => {}
        }
    }
}

fn bind_pair(address: SocketAddr) -> io::Result<Sockets> {
    let udp = bind_udp(address)?;
    let address = udp.local_addr()?;
    let tcp = bind_tcp(address)?;
    Ok(Sockets { udp, tcp, address })
}

/// No address reuse: a second daemon on the port must fail, not share the datagrams.
fn bind_udp(address: SocketAddr) -> io::Result<UdpSocket> {
    let socket = Socket::new(
        Domain::for_address(address),
        Type::DGRAM,
        Some(Protocol::UDP),
    )?;
    prepare(&socket, address)?;
    // Granted as far as the system's limits allow; less only means less room for bursts.
    let _ = socket.set_recv_buffer_size(BUFFER_BYTES);
    let _ = socket.set_send_buffer_size(BUFFER_BYTES);
    socket.bind(&address.into())?;
    UdpSocket::from_std(socket.into())
}

/// Address reuse, so that connections of an earlier life in TIME_WAIT do not block a restart.
fn bind_tcp(address: SocketAddr) -> io::Result<TcpListener> {
    let socket = Socket::new(
        Domain::for_address(address),
        Type::STREAM,
        Some(Protocol::TCP),
    )?;
    prepare(&socket, address)?;
    socket.set_reuse_address(true)?;
    socket.bind(&address.into())?;
    socket.listen(BACKLOG)?;
    TcpListener::from_std(socket.into())
}

fn prepare(socket: &Socket, address: SocketAddr) -> io::Result<()> {
    if address.is_ipv6() {
        // One family per socket: else IPv4 peers would appear under mapped IPv6 addresses, and a
        // member would have two.
        socket.set_only_v6(true)?;
    }
    socket.set_nonblocking(true)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn both_sockets_share_a_port_and_a_second_pair_is_refused() {
        let any = SocketAddr::from(([127, 0, 0, 1], 0));
        let first = Sockets::bind(any).expect("a free port");
        assert_eq!(first.udp.local_addr().ok(), first.tcp.local_addr().ok());
        let error = Sockets::bind(first.address).expect_err("taken").to_string();
        assert!(error.contains(&first.address.to_string()), "{error}");
    }

    #[tokio::test]
    async fn ipv6_is_served_by_itself() {
        let any = SocketAddr::from(([0, 0, 0, 0, 0, 0, 0, 1], 0));
        let sockets = Sockets::bind(any).expect("a free port");
        assert!(sockets.address.is_ipv6());
    }
}
