"""Makes the steps of the examples that the rules declare, and files that steps leave in raw/."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import evidence_builders as build
import msgspec

from ebbtide.logs.checkpoint_file import LEADER_EPOCHS
from ebbtide.record.files import WIRE_FILE
from ebbtide.record.node_times import NodeTimes, Span
from ebbtide.record.steps import StepEntry
from ebbtide.scenario.steps.step import TornPage
from ebbtide.scenario.steps.table import STARTERS

Row = dict[str, Any]
TOPIC_ID = "T".ljust(22, "A")
TORN_AT = 100
"""Half of the page that a torn write leaves."""


def ns(seconds: float) -> int:
    """Return so many seconds after the start of an example."""
    return 1_700_000_000_000_000_000 + int(seconds * 1e9)


def step_of(number: int, words: dict[str, str]) -> StepEntry:
    """Return a step of an example."""
    nodes, at_s = tuple(int(node) for node in words.pop("nodes").split(",")), float(words.pop("at"))
    step, answer, moved = words.pop("step"), words.pop("answer", "NONE"), words.pop("log_start", None)
    lost = _lost(words.pop("leo", None), words.pop("method", "fs-shutdown"))
    healed_s, is_proven = words.pop("healed", None), words.pop("effect", "") != "-"
    held: Row = {"holds": [words.pop("holds")]} if "holds" in words else {}
    if "cuts" in words:
        held["cuts"] = words.pop("cuts").split(",")
    if step == "torn-write":
        page = TornPage(segment=build.segment_name(0), position=0, arrived_bytes=TORN_AT, zero_bytes=TORN_AT)
        held["torn"] = {"t-0": msgspec.to_builtins(page)}
    when = Span(first_ns=ns(at_s), last_ns=ns(at_s + 0.1))
    ended = NodeTimes(ended=when, log_gone=when if step == "wipe-disk" else None)
    times = NodeTimes(started=when) if step in STARTERS else ended
    return StepEntry(
        index=number,
        step=step,
        nodes=nodes,
        fired_ns=ns(at_s),
        effect_ns=ns(at_s + 0.1) if is_proven else None,
        healed_ns=None if healed_s is None else ns(float(healed_s)),
        parameters={key: int(value) if value.isdigit() else value for key, value in words.items()},
        proof={"probe": "ok", **_log_start(moved, answer, at_s), **lost, **held},
        of_node=dict.fromkeys(nodes, times),
    )


def write_torn_log(log: Path) -> None:
    """Write a log with half a page of a batch, and zeros for the other half."""
    page = build.batch(0, [(None, b"x" * 4 * TORN_AT, ())])[:TORN_AT] + bytes(TORN_AT)
    build.write_log(log, page)


def write_epochs(raw: Path, broker: int, *epochs: int) -> None:
    """Write the leader-epoch-checkpoint of t-0 on a broker; epoch 0 begins at offset 0, and so on."""
    (folder := raw / f"broker-{broker}" / "t-0").mkdir(parents=True)
    lines = [f"{epoch} {epoch}" for epoch in epochs]
    (folder / LEADER_EPOCHS).write_text("\n".join(["0", str(len(lines)), *lines]) + "\n")


def write_moved_replica(raw: Path, broker: int, *, to: str, named: str) -> None:
    """Write a replica of t-0 in the second log directory, and a metadata log that names a directory for it."""
    folder = raw / f"broker-{broker}" / "dirs" / "2"
    build.write_log(folder / "t-0", b"")
    (folder / "meta.properties").write_text(f"directory.id={to.ljust(22, 'A')}\n")
    replicas, named_dirs = (1, 2, 3), ("Z", named, "Z")
    messages = build.topic("t", "T"), build.partition("T", 0, replicas, 1, directories=named_dirs)
    build.write_log(raw / "controller-100" / "__cluster_metadata-0", build.metadata_batch(0, *messages))


def write_requests(folder: Path, events: Sequence[Mapping[str, str]]) -> None:
    """Write what a proxy saw of an AlterPartition of broker 1 for t-0; epochs that are not said are not stale."""
    lines = []
    for words in events:
        line: Row = {"node": 1, "rule": 1, "connection": 1, "correlation": 1}
        line |= {"event": words["event"], "at_ns": ns(float(words["at"]))}
        about = {"topic": TOPIC_ID, "partition": 0, "partition_epoch": int(words.get("epoch", "99"))}
        if words["event"] in ("held", "duplicated"):
            epochs = {name: int(words.get(name, "99")) for name in ("leader_epoch", "broker_epoch")}
            line["asked_isrs"] = [{**about, **epochs, "broker": 1, "isr": [1, 2]}]
        elif "error" in words:
            line["answered_isrs"] = [{**about, "error": int(words["error"])}]
        lines.append(msgspec.json.encode(line) + b"\n")
    (folder / WIRE_FILE).write_bytes(b"".join(lines))


def _lost(ends: str | None, method: str) -> Row:
    """The figures of a power loss; `1,0`: the end of the log of t-0 before and after."""
    if ends is None:
        return {}
    before, after = ends.split(",")
    return {"method": method, "logs": {"t-0": {"leo_before": int(before), "leo_after": int(after)}}}


def _log_start(moved: str | None, answer: str, at_s: float) -> Row:
    """The figures of a request to delete records; `0,500`: the log start before and after."""
    if moved is None:
        return {}
    old, new = moved.split(",")
    times = {"asked_ns": ns(at_s), "answered_ns": ns(at_s + 0.1)}
    return {"answer": answer, "log_start": {"old": int(old), "new": int(new), "leader_epoch": 0, **times}}
