"""Shared file systems as their clients' and servers' logs see them: NFS, Lustre, GPFS, Ceph, BeeGFS, full disks and quotas.

Line shapes: Linux fs/nfs, net/sunrpc/clnt.c, net/ceph; lustre ptlrpc/import.c, ptlrpc/pinger.c, mdt/ofd; GPFS mmfs.log; BeeGFS client.
"""

from __future__ import annotations

from collections.abc import Iterable

from parsers import shapes
from parsers.contract import LineDialect, Record, Window
from parsers.shapes import shape

_NFS = (
    # nfs: server nas01 not responding, still trying   nfs: server nas01 not responding, timed out
    shape(
        "storage.timeout",
        r"\b(?:nfs4?|NFS|lockd|nfs_?acl|RPC): server (?P<peer>[\w.:\[\]-]{1,80}) "
        r"(?P<state>not responding(?:, (?:still trying|timed out))?)",
    ),
    # nfs: server nas01 OK
    shape("storage.recovered", r"\b(?:nfs4?|NFS|lockd): server (?P<peer>[\w.:\[\]-]{1,80}) (?P<state>OK)\b"),
    # NFS: nfs4_reclaim_open_state: Lock reclaim failed!
    shape(
        "storage.timeout",
        r"\bNFSv?4?: .{0,60}(?P<state>(?:Lock reclaim|state recovery|state manager)[: ].{0,40}failed)(?:.{0,40} on NFSv4"
        r" server (?P<peer>\S{1,80}))?",
    ),
)
_TARGET = r"(?P<peer>[\w-]{1,60}-(?:OST|MDT)[0-9a-fA-F]{4})"
_NID = r"(?P<nid>[\w.:]{1,60}@\w{1,12})"
_LUSTRE = (
    # Lustre: data-OST0001-osc-ffff8a01b3c0d800: Connection to data-OST0001 (at 10.8.0.4@o2ib) was lost; in progress operations ...
    shape(
        "storage.timeout",
        rf"Connection to (?:service )?(?P<peer>[\w-]{{1,80}})(?: \(at {_NID}\)| via nid {_NID.replace('nid', 'via')})?"
        rf" (?P<state>was lost);",
    ),
    # LustreError: 167-0: data-OST0001-osc-ffff8a01b3c0d800: This client was evicted by data-OST0001; in progress operations ...
    shape("storage.evicted", r"(?P<state>This client was evicted) by (?P<peer>[\w-]{1,80})"),
    # Lustre: data-OST0001-osc-ffff8a01b3c0d800: Connection restored to 10.8.0.4@o2ib (at 10.8.0.4@o2ib)
    shape("storage.recovered", rf"Lustre: {_TARGET}[\w-]{{0,60}}: (?P<state>Connection restored) to"),
    # Lustre: data-MDT0000: haven't heard from client 6f0c... (at 10.8.9.7@o2ib) in 227 seconds. I think it's dead ...
    shape(
        "storage.evicted",
        r"(?<![\w-])(?P<target>[\w-]{1,80}+): (?P<state>haven't heard from client) \S{1,80} \(at "
        r"(?P<host>[\w.:]{1,60})@\w{1,12}\) in (?P<duration_s>\d{1,7}) seconds",
    ),
    # LustreError: ... lock callback timer expired after 100s: evicting client at 10.8.9.7@o2ib  ns: ...
    shape(
        "storage.evicted",
        r"(?P<state>lock callback timer expired) after (?P<duration_s>\d{1,7})s: evicting client at (?P<host>[\w.:]{1,60})@\w{1,12}",
    ),
    # Lustre: 6120:0:(client.c:2289:ptlrpc_expire_one_request()) @@@ Request sent has timed out for slow reply: [sent 1735689600/real ...]
    shape(
        "storage.timeout",
        rf"@@@ (?P<state>Request sent has (?:timed out for slow reply|failed due to network error))(?:.{{0,200}}->{_TARGET})?",
    ),
    # LNetError: 6120:0:(o2iblnd_cb.c:3442:kiblnd_check_txs_locked()) Timed out RDMA with 10.8.0.4@o2ib (12): c: 0, oc: 0, rc: 63
    shape("storage.timeout", r"(?P<state>Timed out (?:RDMA|tx))\b(?: (?:with|for) (?P<peer>[\w.:]{1,60}@\w{1,12}))?"),
    # LustreError: 11-0: data-MDT0000-mdc-ffff...: operation mds_statfs to node 10.8.0.2@o2ib failed: rc = -107
    shape(
        "storage.timeout",
        rf"LustreError: 11-0: {_TARGET}[\w-]{{0,60}}: operation (?P<op>\w{{1,40}}) to node {_NID} "
        rf"(?P<state>failed: rc = -(?:107|110|108|5))\b",
    ),
    # LustreError: 15c-8: MGC10.8.0.1@o2ib: The configuration from log 'data-client' failed (-5). Communication error between node & MGS ...
    shape("storage.timeout", r"LustreError: 15c-8: MGC(?P<peer>[\w.:]{1,60}@\w{1,12}): .{1,160}(?P<state>Communication error) between"),
)
_GPFS = (
    # [E] Lost membership in cluster gpfs.example. Unmounting file systems.
    shape("storage.evicted", r"(?P<state>Lost membership in cluster) (?P<peer>[\w.-]{1,80}?)\.? Unmounting"),
    # [E] Node 10.1.1.9 (gpu-09) is being expelled because of an expired lease. Pings sent: 60. Replies received: 0.
    shape(
        "storage.evicted",
        r"[Nn]ode \S{1,60} \((?P<host>[\w.-]{1,80})\) (?:is being|has been) (?P<state>expelled(?: because of [\w ]{1,60})?)",
    ),
    # [E] The TCP connection to IP address 10.1.1.5 nsd01 <c0n1> (socket 45) state is unexpected: ...
    shape("storage.timeout", r"TCP connection to IP address \S{1,60} (?P<peer>[\w.-]{1,80}) .{0,60}(?P<state>state is unexpected)"),
    # [E] Disk lease period expired 0.010 seconds ago in cluster gpfs.example. Attempting to reacquire the lease.
    shape("storage.timeout", r"(?P<state>Disk lease period expired) .{0,60}in cluster (?P<peer>[\w.-]{1,80}?)\.? "),
    # [E] Close connection to 10.1.1.5 nsd01 <c0n1> (Connection timed out).
    shape(
        "storage.timeout",
        r"Close connection to \S{1,60} (?P<peer>[\w.-]{1,80})(?: <\w{1,12}>)? \("
        r"(?P<state>[^)]{0,20}(?:timed out|reset|refused)[^)]{0,20})\)",
    ),
)
_OTHERS = (
    # libceph: mon0 (1)10.0.0.1:6789 session lost, hunting for new mon
    shape("storage.timeout", r"libceph: (?P<peer>(?:mon|osd|mds)\d{1,6}) .{0,80}(?P<state>session lost|connection reset|connect error)"),
    # libceph: osd12 down   ceph: mds0 hung
    shape("storage.timeout", r"\b(?:lib)?ceph: (?P<peer>(?:osd|mds)\d{1,6}) (?P<state>down|hung|caps stale)\b"),
    # ceph: mds0 session blocklisted   ceph: mds0 rejected session
    shape("storage.evicted", r"\bceph: (?P<peer>mds\d{1,6}) (?P<state>session blocklisted|rejected session)"),
    # ceph: mds0 recovery completed   libceph: osd12 up
    shape(
        "storage.recovered",
        r"\b(?:lib)?ceph: (?P<peer>(?:osd|mds)\d{1,6}) (?P<state>recovery completed|reconnect success|came back|caps renewed|up)\b",
    ),
    # beegfs: Messaging (RPC) >> Communication error: Receive timed out. Peer: beegfs-storage stor01@10.0.0.4:8003
    shape("storage.timeout", r"(?P<state>Communication error): .{0,120}[Pp]eer: ?(?P<peer>[\w. @:-]{1,80})"),
)
_STALE = (
    # ls: cannot access '/scratch/run7': Stale file handle
    shape("storage.timeout", r"^(?!.{0,200}(?:OSError|IOError|Errno)).{0,300}(?P<state>Stale (?:NFS )?file handle)"),
)
_FULL = (
    # systemd-journald[840]: Failed to write entry (23 items, 800 bytes), ignoring: No space left on device
    shape(
        "storage.full",
        r"^(?!.{0,200}(?:OSError|IOError|RuntimeError|Errno|NCCL WARN|spank|pyxis|enroot|prolog|epilog))"
        r".{0,300}(?P<state>No space left on device|Disk quota exceeded)",
    ),
)
_SHAPES = (*_NFS, *_LUSTRE, *_GPFS, *_OTHERS, *_STALE, *_FULL)


def parse(window: Window) -> Iterable[Record]:
    """A file server that stopped answering, came back, threw a client out, or is full. `peer` is the server or target."""
    return shapes.read(_SHAPES, window)


DIALECT = LineDialect(
    name="storage",
    needles=(),
    hints=(
        "not responding",
        ": server ",
        "Lock reclaim",
        "state recovery",
        "state manager",
        " was lost;",
        "client was evicted",
        "Connection restored",
        "heard from client",
        "evicting client",
        "Request sent has",
        "Timed out RDMA",
        "Timed out tx",
        "LustreError: 11-0",
        "Lost membership",
        "expelled",
        "TCP connection to IP address",
        "lease period expired",
        "Close connection to",
        "libceph: ",
        "ceph: mds",
        "Communication error",
        "No space left on device",
        "Disk quota exceeded",
        "Stale file handle",
        "Stale NFS file handle",
    ),
    parse=parse,
)
