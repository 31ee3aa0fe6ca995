//! The network and the sockets of the host.

use super::{Outside, way, ways};

const MODULE: Outside =
    Outside::NotTried("this kernel may lack the family; inside, the answer must be ours all the same");
const NO_FAMILY: &[&str] = &["EAFNOSUPPORT"];

ways! {
    connect_to_socket_files: way(&[
        "socket.socket(socket.AF_UNIX).connect('{outer}/s.stream')",
        "socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM).sendto(b'x', '{outer}/s.dgram')",
        "socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET).connect('{outer}/s.seq')",
        "os.symlink('{outer}/s.stream', 'l'); socket.socket(socket.AF_UNIX).connect('l')",
    ], &["ENOENT", "EACCES"]);
    connect_to_abstract_sockets: way(&["socket.socket(socket.AF_UNIX).connect('\\0{name}')"], &["ECONNREFUSED", "EPERM"]);
    connect_by_tcp: way(&[
        "socket.create_connection(('127.0.0.1', {tcp}), 5)",
        "s = socket.socket(socket.AF_INET6); s.connect(('::ffff:127.0.0.1', {tcp}))",
        "s = socket.socket(); s.setblocking(False); e = s.connect_ex(('127.0.0.1', {tcp})); time.sleep(0.2); e = s.getsockopt(1, 4); s.getpeername()",
        "s = socket.socket(); s.bind(('127.0.0.1', 0)); s.connect(('127.0.0.1', {tcp}))",
    ], &["ECONNREFUSED", "ENETUNREACH", "EACCES", "ENOTCONN"]);
    connect_by_fast_open: way(&[
        "socket.socket().sendto(b'x', 0x20000000, ('127.0.0.1', {tcp}))",
        "socket.socket().sendmsg([b'x'], [], 0x20000000, ('127.0.0.1', {tcp}))",
        "socket.socket(socket.AF_INET6).sendto(b'x', 0x20000000, ('::ffff:127.0.0.1', {tcp}))",
    ], &["EPERM"]);
    connect_by_multipath_tcp: way(&["socket.socket(socket.AF_INET, socket.SOCK_STREAM, 262).connect(('127.0.0.1', {tcp}))"],
        &["EPROTONOSUPPORT"]);
    send_datagrams: way(&[
        "s = socket.socket(2, 2); s.connect(('127.0.0.1', {udp})); s.send(b'x'); time.sleep(0.05); s.send(b'x')",
    ], &["ECONNREFUSED", "ENETUNREACH"]);
    reach_the_world: way(&[
        "socket.socket(2, 2).connect(('192.0.2.1', 53))",
        "socket.socket(2, 2).sendto(b'x', ('8.8.8.8', 53))",
    ], &["ENETUNREACH", "EPERM", "EACCES"]).outside(Outside::NotTried("the host may have no route"));
    listen_where_the_host_would_see_it: way(&["
s = socket.socket(); s.bind(('0.0.0.0', 0)); s.listen()
need(any(l.split()[1].endswith('%04X' % {tcp}) for l in open('/proc/net/tcp').read().splitlines()[1:]), 'the ports of the host')"],
        &["ENODATA"]);
    see_interfaces_of_the_host: way(&["need([n for _, n in socket.if_nameindex() if n != 'lo'])"], &["ENODATA"])
        .outside(Outside::NotTried("the host may have no other interface"));
    packet_sockets: way(&[
        "socket.socket(17, 3, 0x0300)", "socket.socket(17, 2, 0)", "socket.socket(17, 3 | 0x80000, 0)",
    ], NO_FAMILY).outside(Outside::WorksAsRoot);
    raw_sockets: way(&[
        "socket.socket(2, 3, 1)", "socket.socket(2, 3, 255)", "socket.socket(10, 3, 58)", "call(41, 2, 3 | 0x80000, 6)",
    ], &["EPERM"]).outside(Outside::WorksAsRoot);
    old_packet_sockets: way(&["call(41, 2, 10, 0x0300)"], NO_FAMILY).outside(MODULE);
    netlink_but_route: way(&[
        "socket.socket(16, 3, 4)", "socket.socket(16, 3, 9)", "socket.socket(16, 3, 15)", "socket.socket(16, 3, 16)",
    ], NO_FAMILY).outside(Outside::NotTried("the kernel may lack one of them"));
    netlink_changes: way(&["
s = socket.socket(16, 3, 0); s.bind((0, 0))
# RTM_NEWLINK of a dummy interface
s.send(struct.pack('IHHII', 32, 16, 5 | 0x600, 1, 0) + struct.pack('BxHiII', 0, 0, 0, 1, 1))
answer = s.recv(4096); error = -struct.unpack('i', answer[16:20])[0]
if error: raise OSError(error, 'netlink')"], &["EPERM", "EOPNOTSUPP"]).outside(Outside::NotTried("it would change the host"));
    every_other_family: way(&["
took = []
for family in range(0, 64):
    for kind in (1, 2, 3, 5):
        if family in (1, 2, 10, 16): continue
        try:
            socket.socket(family, kind, 0); took.append(family)
        except OSError as error:
            if error.errno != errno.EAFNOSUPPORT: took.append((family, kind, error.errno))
need(took, 'no family'); print(took)"], &["ENODATA"]);
    every_other_family_as_pair: way(&["
took = []
for family in range(0, 64):
    if family in (1, 2, 10, 16): continue
    pair = (ctypes.c_int * 2)()
    try:
        call(53, family, 1, 0, pair); took.append(family)
    except OSError as error:
        if error.errno != errno.EAFNOSUPPORT: took.append((family, error.errno))
need(took, 'no family'); print(took)"], &["ENODATA"]);
    vsock: way(&["socket.socket(40, 1, 0)"], NO_FAMILY).outside(MODULE);
    alg: way(&["socket.socket(38, 5, 0)"], NO_FAMILY).outside(MODULE);
    bluetooth: way(&["socket.socket(31, 3, 1)"], NO_FAMILY).outside(MODULE);
    tipc: way(&["call(41, 30, 5, 0)"], NO_FAMILY).outside(MODULE);
    rds: way(&["call(41, 21, 5, 0)"], NO_FAMILY).outside(MODULE);
    smc: way(&["call(41, 43, 1, 0)"], NO_FAMILY).outside(MODULE);
    xdp: way(&["call(41, 44, 3, 0)"], NO_FAMILY).outside(MODULE);
    key: way(&["call(41, 15, 3, 2)"], NO_FAMILY).outside(MODULE);
    family_with_high_bits: way(&["call(41, 40 | 1 << 32, 1, 0)", "call(41, 17 | 1 << 40, 3, 0x0300)", "call(41, 38 | 5 << 32, 5, 0)"], NO_FAMILY)
        .outside(MODULE);
    other_protocols: way(&[
        "call(41, 2, 1, 132)", "call(41, 2, 5, 132)", "call(41, 2, 5, 0)", "call(41, 2, 2, 136)", "call(41, 2, 1, 256)", "call(41, 10, 1, 262)",
        "call(41, 2, 6, 33)", "call(41, 2, 1 | 0x80800, 262)",
    ], &["EPROTONOSUPPORT"]).outside(MODULE);
}
