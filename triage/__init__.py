"""Log-driven incident analysis for GPU training clusters: which host broke the job, and what to do."""

from __future__ import annotations
