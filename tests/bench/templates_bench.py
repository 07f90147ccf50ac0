"""Time templates of unknown text, masked in bulk, against drain3 fed line by line with the same masks; prints the ratio.

    BENCH_LINES=1000000 python tests/bench/templates_bench.py

Ours is timed from the file to the rows of the table; drain3 from lines that are in memory already. Nothing is asserted.
"""

from __future__ import annotations

import os
import random
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

if __package__ in (None, ""):
    sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from triage import reread, templates
from triage.masking import MASKS

WORDS = "alpha beta gamma delta worker loader shard bucket stage plan cache queue flush commit rebuild".split()


def lines(count: int, seed: int = 7) -> Iterator[str]:
    """Lines of eight programs of a host, in the mix of a busy journal."""
    pick = random.Random(seed)
    for number in range(count):
        day, hour, minute, second = 1 + number // 86400 % 28, number // 3600 % 24, number // 60 % 60, number % 60
        stamp = f"2026-03-{day:02d}T{hour:02d}:{minute:02d}:{second:02d}.{pick.randrange(10**6):06d}Z"
        yield f"{stamp} n-{pick.randrange(64):03d} {message(pick, number)}"


def message(pick: random.Random, number: int) -> str:
    """One of eight kinds of message with fresh ids and numbers."""
    word, other = pick.choice(WORDS), pick.choice(WORDS)
    small, large = pick.randrange(1000), pick.getrandbits(48)
    return (
        f"trainer[{small}]: rank {small % 512} {word} {other} took {pick.random() * 100:.3f} ms at 0x{large:012x}",
        f"agent[77]: connection from 10.{small % 9}.{small % 255}.{large % 255}:{large % 65535} closed after {small} s",
        f'loader: opened /data/set{small % 99}/part-{large % 10**5:05d}.bin ({large} bytes) "{word}-{small % 99}"',
        f"ctl: request {large >> 16:08x}-{small:04x}-4{small:03x}-a{small:03x}-{large:012x} done, {word}={small % 10}",
        f"kernel: [{pick.random() * 1e6:.6f}] veth{large >> 20:07x}: entered promiscuous mode",
        f"iteration {number} loss {pick.random() * 9:.4f} grad {pick.random():.3e} lr {pick.random():.2e} mem {small % 80}GB",
        f"health: probe {word} of gpu{small % 8} ok in {small} us, temp {small % 80} C",
        f"store: key {word}/{other}/{small} written by pid {large % 99999} on node n-{small % 64:03d}",
    )[number * 7919 % 8]


def bulk(path: Path, count: int) -> tuple[float, str]:
    """Seconds of the whole stage on one file, and what it found."""
    began = time.perf_counter()
    tally = templates.Tally(templates.NO_SPAN)
    for reading, frame in reread.unclaimed([reread.Reading("bench", str(path), "output", lines=count)], set()):
        tally.add(reading, frame)
    said, _ = templates.templates_of(tally.folds())
    return time.perf_counter() - began, f"{len(said)} templates"


def line_by_line(texts: list[str]) -> tuple[float, str]:
    """Seconds of drain3 as its own documentation uses it."""
    from drain3 import TemplateMiner
    from drain3.masking import MaskingInstruction
    from drain3.template_miner_config import TemplateMinerConfig

    config = TemplateMinerConfig()
    config.drain_sim_th, config.drain_depth = templates.SIMILARITY, templates.DEPTH
    config.masking_instructions = [MaskingInstruction(pattern, name) for name, pattern in MASKS]
    miner = TemplateMiner(config=config)
    began = time.perf_counter()
    for text in texts:
        miner.add_log_message(text)
    return time.perf_counter() - began, f"{len(miner.drain.clusters)} templates"


def main() -> None:
    count = int(os.environ.get("BENCH_LINES", "1000000"))
    texts = list(lines(count))
    import polars as pl

    print(f"{count} lines, {sum(map(len, texts)) / 1e6:.0f} MB; polars {pl.__version__}, {pl.thread_pool_size()} threads")
    with tempfile.TemporaryDirectory(prefix="bench-") as scratch:
        path = Path(scratch, "train.out")
        path.write_text("\n".join(texts) + "\n")
        seconds, found = bulk(path, count)
    print(f"{'masked in bulk':32} {seconds:8.2f} s {count / seconds:12,.0f} lines/s  {found}")
    slow, found = line_by_line(texts)
    print(f"{'drain3 line by line, same masks':32} {slow:8.2f} s {count / slow:12,.0f} lines/s  {found}")
    print(f"ratio {slow / seconds:.1f}")


if __name__ == "__main__":
    main()
