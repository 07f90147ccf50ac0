"""How long a line takes to change the verdict, and what memory a watch takes: printed, not asserted."""

from __future__ import annotations

import json
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

pytestmark = pytest.mark.bench

ROOT = Path(__file__).parents[2]
PROGRAM = (sys.executable, "-c", "from triage.cli import app_main; app_main()")
QUIET = "Mar  2 0{}:{:02d}:{:02d} gpu-7 systemd[1]: Started session {} of user ada, slice user-1000.\n"
LOST = "Mar  2 1{}:11:07 gpu-{} kernel: NVRM: Xid (PCI:0000:3b:00): 79, GPU has fallen off the bus.\n"
SIZES_MB = (1, 300)


def quiet(count: int) -> Iterator[str]:
    return (QUIET.format(n // 360_000 % 10, n // 6000 % 60, n // 100 % 60, n) for n in range(count))


def resident_mb(process: subprocess.Popen[bytes]) -> int:
    lines = Path(f"/proc/{process.pid}/status").read_text().splitlines()
    return next(int(line.split()[1]) // 1024 for line in lines if line.startswith("VmRSS"))


@pytest.mark.parametrize("size", SIZES_MB)
def test_latency(size: int, tmp_path: Path) -> None:
    log = tmp_path / "kern.log"
    block = "".join(quiet(20_000)).encode()
    with log.open("wb") as file:
        while file.tell() < size << 20:
            file.write(block)
    process = subprocess.Popen([*PROGRAM, "watch", str(tmp_path), "--format", "json", "--for", "60s"], cwd=ROOT, stdout=subprocess.PIPE)
    assert process.stdout is not None
    began = time.monotonic()
    process.stdout.readline()
    print(f"\n{size} MB: first verdict after {time.monotonic() - began:.1f} s, {resident_mb(process)} MB")
    for n in range(4):
        time.sleep(1.3)
        with log.open("ab") as file:
            file.write(LOST.format(n, n).encode())
        began = time.monotonic()
        found = json.loads(process.stdout.readline())
        print(f"{found['verdict']['class']} {time.monotonic() - began:.2f} s after its line, {resident_mb(process)} MB")
    process.terminate()
    process.wait()


def test_memory_over_a_million_lines() -> None:
    process = subprocess.Popen([*PROGRAM, "watch", "-"], cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.DEVNULL)
    assert process.stdin is not None
    for number, line in enumerate(quiet(1_000_000), 1):
        process.stdin.write(line.encode())
        if number % 200_000 == 0:
            time.sleep(3)
            print(f"\n{number:,} lines: {resident_mb(process)} MB", end="")
    process.stdin.close()
    assert process.wait() == 0
