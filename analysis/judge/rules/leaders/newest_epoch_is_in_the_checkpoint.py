"""KIP-101: a replica has the newest leader epoch of its log in its leader-epoch-checkpoint.

A replica adds an epoch to that file before it appends the first batch of the epoch, and a broker that starts after an
unclean shutdown makes the file once more, from the log. By it a follower learns where to truncate. Older epochs may go
from the file as the log's start moves; the newest one of the log never does. A power loss, or trouble with the broker's
disk, may take it.
"""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress

from analysis.judge.history.epoch_starts import FindHwsBelowStart
from analysis.judge.history.evidence import Row
from analysis.judge.rules.clause import Cases, Clause, Finding, Judged
from analysis.record.record import Record
from analysis.record.whole import is_raw_whole
from ebbtide.logs.checkpoint_file import LEADER_EPOCHS, read_leader_epochs
from ebbtide.record.files import RAW_DIR, raw_log_dirs
from ebbtide.scenario.steps.table import DISK_TROUBLES, LOSES_RECORDS


def _check(judged: Judged) -> Finding:
    record = judged.record
    cases = Cases()
    for (topic, partition, broker), newest in sorted(record.seen(FindHwsBelowStart).newest.items()):
        kept = _epochs_kept(record, broker, f"{topic}-{partition}")
        if kept is not None:
            row: Row = {"topic": topic, "partition": partition, "broker": broker, "leader_epoch": newest}
            row["epochs_in_the_file"] = [*kept]
            cases.add(None if newest in kept else row, why=_why_taken(record, broker))
    doubt = f"{RAW_DIR}/ is not as the run left it" if cases.is_broken and not is_raw_whole(record) else None
    return cases.finding(doubt)


def _epochs_kept(record: Record, broker: int, log: str) -> Mapping[int, int] | None:
    """Return where the epochs of a log begin by its file; None: it has no file that can be read, or several."""
    found = []
    for folder in raw_log_dirs(record.folder / RAW_DIR / f"broker-{broker}"):
        with suppress(ValueError):
            found.append(read_leader_epochs(folder / log / LEADER_EPOCHS))
    return found[0] if len(found) == 1 else None


def _why_taken(record: Record, broker: int) -> str | None:
    """Return why the file of a broker may lack what it had; None: nothing took it."""
    if record.proven_steps is None:
        return "no steps say what happened to the broker's disk"
    taken = LOSES_RECORDS | DISK_TROUBLES
    if any(step.step in taken and broker in step.nodes for step in record.proven_steps):
        return "a step took from the broker's disk, or troubled it"
    return None


RULE = Clause(
    kip="KIP-101",
    check=_check,
    scans=(FindHwsBelowStart,),
    reads_timeline=False,
    parts=("replicas",),
    needed="never",
    unknown_when=(
        "the file lacks the epoch, and no steps are there, a step took from the broker's disk or troubled it, or "
        "`raw/` is not as the run left it. Only where `raw/` has the file, and it can be read"
    ),
    example="""
        The last record in the log of broker 2 is of epoch 1. Its leader-epoch-checkpoint has epoch 0 alone.
        partitions: leader=1; at=5 leader=3
        replicas: broker=2 0=1; broker=2 leader_epoch=1 1=2
        setting: epochs=2,0
        gives: broker=2 leader_epoch=1
    """,
)
