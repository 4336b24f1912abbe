//! Where `--notify` lets this process be notified of its turn.

use std::fmt;
use std::io;
use std::net::{IpAddr, Ipv4Addr, SocketAddr, UdpSocket};
use std::str::FromStr;

use fairlock::UdpNotifier;

use crate::failure::Failure;

/// Any address beyond this host. A socket that is connected to it shows which of the host's addresses it would use. Nothing is sent.
const BEYOND: (Ipv4Addr, u16) = (Ipv4Addr::new(192, 0, 2, 1), 9);

/// The address at which other hosts notify this process.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Notify {
    /// The host's own, with any port.
    Own,
    At(SocketAddr),
}

impl FromStr for Notify {
    type Err = &'static str;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        if text == "own" {
            return Ok(Notify::Own);
        }
        let at = text.parse::<SocketAddr>();
        let any_port = |_| text.parse::<IpAddr>().map(|host| SocketAddr::new(host, 0));
        let at = at.or_else(any_port).map(Notify::At);
        at.map_err(|_| "neither an address such as 10.0.3.7 or 10.0.3.7:7001, nor own")
    }
}

/// Writes it as it is read.
impl fmt::Display for Notify {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Notify::Own => f.write_str("own"),
            Notify::At(at) => write!(f, "{at}"),
        }
    }
}

impl Notify {
    /// Listens there. If all processes are on this host, its own address is the loopback's.
    pub(crate) fn listen(self, is_local: bool) -> Result<UdpNotifier, Failure> {
        let at = match self {
            Notify::At(at) => at,
            Notify::Own if is_local => SocketAddr::from((Ipv4Addr::LOCALHOST, 0)),
            Notify::Own => match own() {
                Ok(host) => SocketAddr::new(host, 0),
                Err(error) => {
                    let text = format!(
                        "cannot tell this host's own address: {error}: name it with --notify=ADDRESS"
                    );
                    return Err(Failure::misuse(text));
                }
            },
        };
        let cannot = |error| Failure::misuse(format!("cannot be notified at {at}: {error}"));
        UdpNotifier::bind(at).map_err(cannot)
    }
}

fn own() -> io::Result<IpAddr> {
    let socket = UdpSocket::bind((Ipv4Addr::UNSPECIFIED, 0))?;
    socket.connect(BEYOND)?;
    Ok(socket.local_addr()?.ip())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_may_have_a_port() {
        let at = |text: &str| Notify::At(text.parse().unwrap());
        assert_eq!("own".parse(), Ok(Notify::Own));
        assert_eq!("10.0.3.7".parse(), Ok(at("10.0.3.7:0")));
        assert_eq!("10.0.3.7:7001".parse(), Ok(at("10.0.3.7:7001")));
        assert_eq!("::1".parse(), Ok(at("[::1]:0")));
        assert_eq!("[::1]:7001".parse(), Ok(at("[::1]:7001")));
        for same in ["own", "10.0.3.7:0", "[::1]:7001"] {
            let notify = same.parse().map(|notify: Notify| notify.to_string());
            assert_eq!(notify, Ok(same.to_owned()));
        }
        for wrong in ["", "host", "host:7001", "10.0.3", "10.0.3.7:70010"] {
            assert!(wrong.parse::<Notify>().is_err(), "{wrong}");
        }
    }
}
