//! What the host has that a program must not reach: sockets of every kind, names of ipc.

use std::net::{TcpListener, UdpSocket};
use std::os::fd::OwnedFd;
use std::os::linux::net::SocketAddrExt;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::{SocketAddr, UnixDatagram, UnixListener};
use std::path::PathBuf;
use std::process::Command;
use std::sync::atomic::{AtomicU32, Ordering};

use nix::sys::socket::{AddressFamily, Backlog, SockFlag, SockType, UnixAddr, bind, listen, socket};

use crate::escape::Bay;

/// Kept open as long as the scene.
pub(super) struct Host {
    /// Port of a listener on 127.0.0.1.
    pub(super) tcp: u16,
    /// Port of a datagram socket on 127.0.0.1.
    pub(super) udp: u16,
    /// A name that nobody else uses; it is also the name of an abstract socket.
    pub(super) name: String,
    folder: PathBuf,
    _kept: (TcpListener, UdpSocket, UnixListener, UnixDatagram, UnixListener, OwnedFd),
}

impl Host {
    /// `outer/s.stream`, `outer/s.dgram`, `outer/s.seq`, the abstract socket `name`, and two ports.
    pub(super) fn new(bay: &Bay) -> Host {
        static NUMBER: AtomicU32 = AtomicU32::new(0);
        let outer = bay.base().join("outer");
        let name = format!("stockade-{}-{}", std::process::id(), NUMBER.fetch_add(1, Ordering::Relaxed));
        let tcp = TcpListener::bind("127.0.0.1:0").unwrap();
        let udp = UdpSocket::bind("127.0.0.1:0").unwrap();
        let stream = UnixListener::bind(outer.join("s.stream")).unwrap();
        let datagrams = UnixDatagram::bind(outer.join("s.dgram")).unwrap();
        let hidden = UnixListener::bind_addr(&SocketAddr::from_abstract_name(&name).unwrap()).unwrap();
        let packets = socket(AddressFamily::Unix, SockType::SeqPacket, SockFlag::SOCK_CLOEXEC, None).unwrap();
        bind(std::os::fd::AsRawFd::as_raw_fd(&packets), &UnixAddr::new(&outer.join("s.seq")).unwrap()).unwrap();
        listen(&packets, Backlog::new(1).unwrap()).unwrap();
        for socket in ["s.stream", "s.dgram", "s.seq"] {
            std::fs::set_permissions(outer.join(socket), std::fs::Permissions::from_mode(0o777)).unwrap();
        }
        Host {
            tcp: tcp.local_addr().unwrap().port(),
            udp: udp.local_addr().unwrap().port(),
            name,
            folder: outer,
            _kept: (tcp, udp, stream, datagrams, hidden, packets),
        }
    }

    /// Runs Python on the host, with the helpers of `inside.py`.
    #[track_caller]
    pub(super) fn python(&self, code: &str) {
        if code.is_empty() {
            return;
        }
        let helpers = include_str!("inside.py").replace("\nmain()\n", "\n");
        let output =
            Command::new("/usr/bin/python3").arg("-c").arg(helpers + code).current_dir(&self.folder).output().unwrap();
        assert!(output.status.success(), "{code}: {}", crate::support::shown(&output));
    }
}
