"""Folders with every way in which logs lie about, and every table of a database as one digest."""

from __future__ import annotations

import gzip
import hashlib
import io
import os
import random
import tarfile
from pathlib import Path

import duckdb

from triage.schema import TABLES

HOSTS = 12
XID = "kernel: NVRM: Xid (PCI:0000:3b:00): {code}, pid=812, name=python3, GPU fault {code}"
REJECT = "kernel: NVRM: Xid (rubbish"
LINK = "kernel: mlx5_core 0000:9f:00.0 ib2: Link down"
CALM = "kernel: usb 1-1: new high-speed USB device number {n} using xhci_hcd"


def digests(db: Path | str) -> dict[str, tuple[int, str]]:
    """Rows and a digest of every table, in a fixed order of rows; `meta` says the same in other words."""
    found = {}
    with duckdb.connect(str(db), read_only=True) as connection:
        for table in sorted(set(TABLES) - {"meta"}):
            rows = connection.execute(f"SELECT * FROM {table} ORDER BY ALL").fetchall()
            found[table] = (len(rows), hashlib.sha256(repr(rows).encode()).hexdigest())
    return found


def kernel_log(host: str, lines: int, draw: random.Random, year: bool) -> bytes:
    """A host's kernel log of two days, with faults; without a year in its stamps where `year` is false."""
    rows = []
    for n in range(lines):
        day, second = divmod(n * 172_000 // max(1, lines), 86_400)
        at = f"{second // 3600:02d}:{second // 60 % 60:02d}:{second % 60:02d}"
        stamp = f"2026-03-0{2 + day}T{at}.000000+00:00" if year else f"Mar  {2 + day} {at}"
        kind = draw.random()
        text = (
            XID.format(code=draw.choice((13, 48, 63, 79, 94)))
            if kind < 0.01
            else LINK
            if kind < 0.015
            else REJECT
            if kind < 0.017
            else CALM
        )
        rows.append(f"{stamp} {host} {text.format(n=n)}\n")
    return "".join(rows).encode()


def write(folder: Path, lines: int = 2000, hosts: int = HOSTS) -> Path:
    """A folder of logs: plain, packed, in an archive, copied, grown, cut, binary and hidden."""
    draw = random.Random(7)
    (folder / "deep").mkdir(parents=True)
    for n in range(hosts):
        log = kernel_log(f"qx-{n:02d}", lines, draw, year=n % 3 > 0)
        put(folder / f"qx-{n:02d}.kern.log", log)
        if n == 1:
            put(folder / "deep" / "copy.log.gz", gzip.compress(log, mtime=0))
        if n == 2:
            put(folder / "deep" / "first-half.log", log[: len(log) // 2 // 80 * 80])
        if n == 3:
            put(folder / "deep" / "cut.log.gz", gzip.compress(kernel_log("qx-03b", lines, draw, True))[:-400])
    put(folder / "noise.bin", bytes(draw.randrange(256) for _ in range(4000)))
    put(folder / "odd!name.log", kernel_log("qx-90", 50, draw, True))
    put(folder / ".hidden", b"nothing")
    put(folder / "sacct.txt", SACCT.encode())
    put(folder / "bundle.tar.gz", bundle({f"logs/qx-{n:02d}.log": kernel_log(f"qx-{n:02d}", 300, draw, True) for n in range(70, 75)}))
    return folder


SACCT = """\
JobID|State|NodeList|Start|End
4711|FAILED|qx-[01-02]|2026-03-02T04:00:00|2026-03-02T05:00:00
4712|COMPLETED|qx-[03-04]|2026-03-02T04:00:00|2026-03-02T05:00:00
"""


def put(path: Path, data: bytes) -> None:
    """A file whose time is the same in every copy of the folder."""
    path.write_bytes(data)
    os.utime(path, (1_772_600_000, 1_772_600_000))


def bundle(members: dict[str, bytes]) -> bytes:
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w:gz") as archive:
        for name, data in members.items():
            info = tarfile.TarInfo(name)
            info.size, info.mtime = len(data), 1_772_600_000
            archive.addfile(info, io.BytesIO(data))
    return out.getvalue()
