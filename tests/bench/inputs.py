"""Seeded inputs for the benchmarks; the same size gives the same bytes."""

from __future__ import annotations

import random
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path

SEED = 20260103
SHARE = 0.0005  # of the lines, that carry a fault
BEGIN = datetime(2026, 3, 2, 4, 0, 0, tzinfo=UTC)
CHUNK = 2000  # lines of one second
HOST = "bx-017"

QUIET = (
    "systemd[1]: Started Session {n} of user svc-metrics.",
    "systemd[1]: session-{n}.scope: Deactivated successfully.",
    "kernel: [{n}.{m:06d}] perf: interrupt took too long (2503 > 2500), lowering kernel.perf_event_max_sample_rate to 79750",
    "kernel: [{n}.{m:06d}] IPv6: ADDRCONF(NETDEV_CHANGE): veth{m:04x}: link becomes ready",
    'dockerd[2201]: time="2026-03-02T04:00:00Z" level=info msg="ignoring event" container={n:x}{m:x} module=libcontainerd',
    "sshd[{n}]: Accepted publickey for svc-deploy from 198.51.100.{b} port {m} ssh2: ED25519 SHA256:q{n}",
    "CRON[{n}]: (root) CMD (/usr/local/sbin/collect-counters --once >/dev/null 2>&1)",
    "chronyd[1180]: Selected source 198.51.100.{b} (ntp-{b}.example)",
    "node_exporter[3110]: level=info collector=netdev duration_seconds=0.00{m} success=1 iteration={n}",
    'kernel: [{n}.{m:06d}] audit: type=1400 audit(1772424000.{b}:{n}): apparmor="STATUS" operation="profile_replace" pid={m}',
)
LOUD = (
    "kernel: [{n}.{m:06d}] NVRM: Xid (PCI:0000:{b:02x}:00): 13, pid={m}, name=python3, "
    "Graphics SM Warp Exception on (GPC 2, TPC 1, SM 0): Out Of Range Address",
    "kernel: [{n}.{m:06d}] NVRM: Xid (PCI:0000:{b:02x}:00): 94, pid={m}, name=python3, Contained: SM (0x1). RST: No, D-RST: No",
    "kernel: [{n}.{m:06d}] NVRM: Xid (PCI:0000:{b:02x}:00): 63, pid={m}, name=python3, "
    "Row Remapper: New row (0x00000000{m:08x}) marked for remapping",
    "kernel: [{n}.{m:06d}] pcieport 0000:{b:02x}:00.0: AER: Corrected error received: 0000:{b:02x}:00.0",
    "kernel: [{n}.{m:06d}] EDAC MC0: 1 CE memory read error on CPU_SrcID#0_MC#0_Chan#1_DIMM#0 "
    "(channel:1 slot:0 page:0x{m:x} offset:0x0 grain:32)",
    "kernel: [{n}.{m:06d}] mlx5_core 0000:{b:02x}:00.0: Port module event[error]: module 0, Cable error, Power budget exceeded",
)
CHATTER = (
    "{host}:{p}:{t} [{g}] NCCL INFO Channel {c:02d}/0 : {r}[{g}] -> {s}[{h}] via P2P/CUMEM/read",
    "{host}:{p}:{t} [{g}] NCCL INFO Channel {c:02d}/0 : {r}[{g}] -> {s}[{h}] [send] via NET/IB/{g}/GDRDMA",
    "{host}:{p}:{t} [{g}] NCCL INFO Trees [0] {r}/-1/-1->{s}->-1 [1] {s}/-1/-1->{r}->-1",
    "{host}:{p}:{t} [{g}] NCCL INFO threadThresholds 8/8/64 | 512/8/64 | 512 | 512",
    "{host}:{p}:{t} [{g}] NCCL INFO AllReduce: opCount {n:x} sendbuff 0x7f{n:010x} recvbuff 0x7f{n:010x} "
    "count {m} datatype 9 op 0 root 0 comm 0x55{t:08x}",
)


def fill(forms: tuple[str, ...], count: int, draw: random.Random) -> list[bytes]:
    """`count` messages of these forms."""
    numbers = [{"n": draw.randrange(10_000, 99_999), "m": draw.randrange(100_000), "b": draw.randrange(16, 224)} for _ in range(count)]
    return [draw.choice(forms).format(**given).encode() + b"\n" for given in numbers]


def syslog_seconds(draw: random.Random) -> Iterator[bytes]:
    """One second of a host's syslog after the other, without end."""
    quiet, loud = fill(QUIET, 4000, draw), fill(LOUD, 400, draw)
    moment = BEGIN
    while True:
        frame = f"{moment:%b} {moment.day:2d} {moment:%H:%M:%S} {HOST} ".encode()
        bodies = draw.choices(quiet, k=CHUNK)
        for place in range(CHUNK):
            if draw.random() < SHARE:
                bodies[place] = draw.choice(loud)
        yield frame + frame.join(bodies)
        moment += timedelta(seconds=1)


def chatter_blocks(draw: random.Random) -> Iterator[bytes]:
    """Blocks of a job's log at NCCL_DEBUG=INFO, without end."""
    while True:
        block = []
        for _ in range(CHUNK):
            rank = draw.randrange(256)
            facts = {"host": f"bx-{rank // 8:03d}", "p": 4000 + rank, "t": 9000 + rank, "g": rank % 8, "h": (rank + 1) % 8, "r": rank}
            facts |= {"s": (rank + 1) % 256, "c": draw.randrange(24), "n": draw.randrange(1 << 30), "m": draw.randrange(1 << 26)}
            block.append(draw.choice(CHATTER).format(**facts))
        yield ("\n".join(block) + "\n").encode()


def write(path: Path, blocks: Iterator[bytes], size: int) -> None:
    """Write whole blocks until the file holds `size` bytes."""
    written = 0
    with path.open("wb") as file:
        while written < size:
            written += file.write(next(blocks))


def write_syslog(path: Path, size: int) -> None:
    write(path, syslog_seconds(random.Random(SEED)), size)


def write_job_log(path: Path, size: int) -> None:
    """An NCCL log made of one drawn part that is repeated (drawing is slow), with a collective timeout of one rank at its end."""
    draw = random.Random(SEED)
    blocks = chatter_blocks(draw)
    part = b"".join(next(blocks) for _ in range(40))
    write(path, iter(lambda: part, b""), size)
    with path.open("ab") as file:
        file.write(
            b"[rank3]:[E302 05:10:00.104312001 ProcessGroupNCCL.cpp:632] [Rank 3] Watchdog caught collective operation timeout: "
            b"WorkNCCL(SeqNum=88121, OpType=ALLREDUCE, NumelIn=4194304, NumelOut=4194304, Timeout(ms)=600000) "
            b"ran for 600012 milliseconds before timing out.\n"
        )


def write_flood(path: Path, lines: int) -> None:
    """The same Xid again and again, as a broken GPU prints it: 1,000 lines a second."""
    xid = "NVRM: Xid (PCI:0000:3b:00): 95, pid=4242, name=python3, Uncontained: LTC TAG (0x3,0x1). RST: Yes, D-RST: No"
    body = f" {HOST} kernel: {xid}\n".encode()
    with path.open("wb") as file:
        for second in range(0, lines, 1000):
            moment = BEGIN + timedelta(seconds=second // 1000)
            stamp = f"{moment:%b} {moment.day:2d} {moment:%H:%M:%S}".encode()
            file.write((stamp + body) * min(1000, lines - second))


def write_events(path: Path, count: int) -> None:
    """Xid lines of 200 hosts, each with numbers of its own, so that none folds into another."""
    draw = random.Random(SEED)
    moment = BEGIN
    with path.open("wb") as file:
        for number in range(count):
            moment += timedelta(seconds=draw.random() * 8)
            bus, pid = draw.choice(("1a", "3b", "5e", "9d")), draw.randrange(1 << 20)
            xid = f"NVRM: Xid (PCI:0000:{bus}:00): {draw.choice((13, 31, 43, 63, 94))}, pid={pid}, name=python3, Ch {number:08x}"
            file.write(f"{moment:%Y-%m-%dT%H:%M:%S.%f}+00:00 bx-{draw.randrange(200):03d} kernel: {xid}\n".encode())
