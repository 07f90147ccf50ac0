"""Fuzz the target `flight` of targets.py."""

from __future__ import annotations

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from tests.fuzz.fuzzing import main

if __name__ == "__main__":
    main("flight")
