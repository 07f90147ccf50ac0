"""Fuzz the target `frames` of targets.py."""

from __future__ import annotations

from fuzzing import main

if __name__ == "__main__":
    main("frames")
