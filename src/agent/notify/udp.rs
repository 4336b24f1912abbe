//! Notifications as UDP datagrams.

use std::future::Future;
use std::io;
use std::net::{SocketAddr, ToSocketAddrs};
use std::pin::Pin;

use tokio::net::UdpSocket;

use super::Notifier;
use fairlock_protocol::notification::MAX_DATAGRAM;

/// A socket that fails this many times in a row is broken, and nothing will arrive there any more.
const MAX_ERRORS: usize = 1000;

/// A [`Notifier`] that sends UDP datagrams.
///
/// Each client has a socket of its own, at the address at which it is bound. The hosts must be able to send each other datagrams there: in
/// AWS, a security group that allows UDP from itself does. Where they are not able to, clients poll as they would without a notifier.
///
/// The addresses that clients tell each other are numeric, as `10.0.3.7:7001` or `[2001:db8::7]:7001`. To send to one looks up no name.
///
/// # Examples
///
/// ```
/// # use aws_sdk_dynamodb::Client;
/// # async fn build(dynamodb: Client) -> Result<(), Box<dyn std::error::Error>> {
/// use fairlock::{LockClient, UdpNotifier};
///
/// // The host's own address in the network that it shares with the others. The system chooses the port.
/// let notifier = UdpNotifier::bind("10.0.3.7:0")?;
/// let locks = LockClient::builder(dynamodb).notifier(notifier).build()?;
/// # Ok(())
/// # }
/// ```
#[derive(Debug)]
pub struct UdpNotifier {
    receiving: UdpSocket,
    /// The same socket. The runtime's own would send nothing before it has heard that there is room.
    sending: std::net::UdpSocket,
    advertised: SocketAddr,
}

impl UdpNotifier {
    /// Binds a socket at an address. Others are told the same address, with the port that the system chose if the given one is 0. Must be
    /// called inside a tokio runtime with `enable_io`.
    ///
    /// # Errors
    ///
    /// An error of [`io::ErrorKind::InvalidInput`] if the address names no host, as `0.0.0.0` does: then use
    /// [`bind_as`](Self::bind_as). Any error of the system, for example that the port is taken.
    ///
    /// # Panics
    ///
    /// Outside of a tokio runtime, or in one without I/O.
    ///
    /// # Examples
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> std::io::Result<()> {
    /// let notifier = fairlock::UdpNotifier::bind("127.0.0.1:0")?;
    /// assert!(fairlock::UdpNotifier::bind("0.0.0.0:0").is_err(), "nobody can be reached there");
    /// # drop(notifier);
    /// # Ok(())
    /// # }
    /// ```
    pub fn bind(address: impl ToSocketAddrs) -> io::Result<Self> {
        let socket = std::net::UdpSocket::bind(address)?;
        let advertised = socket.local_addr()?;
        Self::of(socket, advertised)
    }

    /// Binds a socket at an address, and tells others another one, at which they reach it. That is for a host behind a translation of
    /// addresses, and for a socket that is bound at all addresses of its host. If the port of `advertised` is 0, others are told the port of the socket.
    ///
    /// # Errors
    ///
    /// As those of [`bind`](Self::bind), where `advertised` is the address that must name a host.
    ///
    /// # Panics
    ///
    /// Outside of a tokio runtime, or in one without I/O.
    ///
    /// # Examples
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> std::io::Result<()> {
    /// let advertised = "127.0.0.1:0".parse().unwrap();
    /// let notifier = fairlock::UdpNotifier::bind_as("0.0.0.0:0", advertised)?;
    /// # drop(notifier);
    /// # Ok(())
    /// # }
    /// ```
    pub fn bind_as(address: impl ToSocketAddrs, mut advertised: SocketAddr) -> io::Result<Self> {
        let socket = std::net::UdpSocket::bind(address)?;
        if advertised.port() == 0 {
            advertised.set_port(socket.local_addr()?.port());
        }
        Self::of(socket, advertised)
    }

    fn of(sending: std::net::UdpSocket, advertised: SocketAddr) -> io::Result<Self> {
        if advertised.ip().is_unspecified() {
            let why =
                format!("{advertised} names no host: say at which address this one is reached");
            return Err(io::Error::new(io::ErrorKind::InvalidInput, why));
        }
        sending.set_nonblocking(true)?;
        Ok(UdpNotifier {
            receiving: UdpSocket::from_std(sending.try_clone()?)?,
            sending,
            advertised,
        })
    }
}

impl Notifier for UdpNotifier {
    fn address(&self) -> String {
        self.advertised.to_string()
    }

    fn send(&self, address: &str, datagram: &[u8]) {
        if let Ok(address) = address.parse::<SocketAddr>() {
            // Best effort: what does not fit into the socket's buffer is lost, as it may be on the way.
            let _ = self.sending.send_to(datagram, address);
        }
    }

    fn receive(&self) -> Pin<Box<dyn Future<Output = Vec<u8>> + Send + '_>> {
        Box::pin(async {
            // One byte more than the longest: what is longer is cut, and is no notification.
            let mut bytes = [0; MAX_DATAGRAM + 1];
            for _ in 0..MAX_ERRORS {
                if let Ok((length, _)) = self.receiving.recv_from(&mut bytes).await {
                    return bytes[..length].to_vec();
                }
                // An error may be about a datagram that this socket sent earlier, as that its port is closed. A runtime that shuts down
                // fails each call, and ends the task here.
                tokio::task::yield_now().await;
            }
            std::future::pending().await
        })
    }
}
