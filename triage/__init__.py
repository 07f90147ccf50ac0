"""Log-driven incident analysis for GPU training clusters: which host broke the job, and what to do."""

from __future__ import annotations

import os

# Read by polars when it is loaded: without it memory that is free again stays with the process.
os.environ.setdefault("_RJEM_MALLOC_CONF", "dirty_decay_ms:25,muzzy_decay_ms:0")
