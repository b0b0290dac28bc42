"""Turns the raw/ folder of a run record into its tables.

Each part decodes what is there and reports what is missing.
"""

from analysis.evidence.checkpoints import write_checkpoints
from analysis.evidence.replicas import write_replicas
from analysis.evidence.timeline import write_timeline

__all__ = ["write_checkpoints", "write_replicas", "write_timeline"]
