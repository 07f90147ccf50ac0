"""A seeded folder of logs: many hosts' system logs, one of them large, a job's output, its record, a dump and packed files."""

from __future__ import annotations

import gzip
import random
from collections.abc import Iterator
from pathlib import Path

from tests.bench import inputs

SMALL, LARGE = 1 << 16, 4 << 20  # bytes of a file that hold events; the rest is quiet
XID = "{t} {host} kernel: NVRM: Xid (PCI:0000:{b:02x}:00): {code}, pid={pid}, name=python3, Ch {n:08x}\n"
CODES = (13, 31, 43, 48, 63, 74, 79, 94, 95, 119)


def _host_log(host: str, draw: random.Random, size: int) -> Iterator[bytes]:
    """Lines of one host, about one in twenty an event."""
    written, n = 0, 0
    quiet = [form.replace("{m:06d}", "{m}").split(" ", 1)[0] for form in inputs.QUIET]
    while written < size:
        n += draw.randrange(1, 40)
        stamp = f"2026-03-{2 + n // 86400 % 27:02d}T{n // 3600 % 24:02d}:{n // 60 % 60:02d}:{n % 60:02d}.000000+00:00"
        if draw.random() < 0.05:
            line = XID.format(t=stamp, host=host, b=draw.randrange(8) * 16, code=draw.choice(CODES), pid=draw.randrange(1 << 16), n=n)
        else:
            line = f"{stamp} {host} {draw.choice(quiet)} session {n} {'x' * draw.randrange(40, 160)}\n"
        written += len(line)
        yield line.encode()


def write(folder: Path, size: int, hosts: int) -> Path:
    """`size` bytes of logs: half of it one file, the rest small ones; the same arguments give the same bytes."""
    folder.mkdir(parents=True)
    draw = random.Random(7)
    each = size // 2 // hosts
    part = b"".join(_host_log("du-000", draw, min(size // 4, LARGE)))
    (folder / "du-000.kern.log").write_bytes(part + _quiet(draw, size // 2 - 2 * len(part)) + part)
    for n in range(1, hosts + 1):
        host = f"du-{n:03d}"
        text = b"".join(_host_log(host, draw, min(each, SMALL)))
        body = text + _quiet(draw, each - len(text))
        if n % 10:
            (folder / f"{host}.kern.log").write_bytes(body)
        else:
            with gzip.GzipFile(folder / f"{host}.kern.log.gz", "wb", mtime=0) as packed:
                packed.write(body)
    (folder / "sacct.txt").write_text(_records(hosts))
    return folder


def _quiet(draw: random.Random, size: int) -> bytes:
    """Lines that nobody claims, drawn once and repeated."""
    if size <= 0:
        return b""
    line = f"2026-03-28T00:00:00.000000+00:00 du-999 app[{draw.randrange(1 << 16)}]: nothing of note {'y' * 120}\n".encode()
    return line * (size // len(line))


def _records(hosts: int) -> str:
    head = "JobID|JobName|User|Partition|NNodes|NodeList|AllocTRES|Submit|Start|End|Elapsed|State|ExitCode|Reason\n"
    row = "{id}|run|ada|train|1|du-{n:03d}|cpu=96,gres/gpu=8,node=1|{d}T00:00:00|{d}T00:01:00|{d}T02:00:00|01:59:00|{state}|{code}|None\n"
    rows = (
        row.format(id=9000 + n, n=n, d=f"2026-03-{2 + n % 5:02d}", state="FAILED" if n % 3 else "COMPLETED", code="1:0" if n % 3 else "0:0")
        for n in range(1, hosts + 1)
    )
    return head + "".join(rows)
