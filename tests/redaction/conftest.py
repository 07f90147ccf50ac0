"""The command line in this process."""

from tests.cli.conftest import triage

__all__ = ["triage"]
