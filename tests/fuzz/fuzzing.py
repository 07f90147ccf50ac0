"""Runs one target under atheris: `python tests/fuzz/fuzz_frames.py -max_total_time=60`. Options are libFuzzer's."""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path

import atheris

with atheris.instrument_imports(include=["parsers", "triage"]):
    from tests.fuzz import corpora, targets

# 10 s for one input is a hang; what breaks a target is written beside the other seeds.
DEFAULTS = ("-timeout=10", "-max_len=8192", "-rss_limit_mb=2048", "-print_final_stats=1")


def main(target: str) -> None:
    """Fuzz until told to stop; exits 77 with the input that broke the target in tests/fuzz/seeds/<target>."""
    seeds = corpora.SEEDS / target
    seeds.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory() as folder:
        for number, data in enumerate(corpora.inputs(target)):
            Path(folder, f"{number:04d}").write_bytes(data)
        options = [f"-artifact_prefix={seeds}/", *DEFAULTS, *sys.argv[1:]]
        atheris.Setup([sys.argv[0], *options, folder, str(seeds)], targets.TARGETS[target])
        atheris.Fuzz()
