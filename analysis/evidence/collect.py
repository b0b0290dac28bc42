"""Turns the raw/ folder of a run record into its tables. Each part works on what is there and says what is not."""

from analysis.evidence.checkpoints import write_checkpoints
from analysis.evidence.replicas import write_replicas
from analysis.evidence.timeline import write_timeline

__all__ = ["write_checkpoints", "write_replicas", "write_timeline"]
