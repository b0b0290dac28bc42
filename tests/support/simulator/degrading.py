"""Takes evidence out of a history, as a run that lacks it would have it."""

from __future__ import annotations

import random
from dataclasses import replace

import msgspec

from ebbtide.record.steps import StepEntry
from simulator.history import FALL, LOST, VANISHED, TrueHistory


def degrade(history: TrueHistory) -> TrueHistory:
    """Return the history without what its script says is missing."""
    for what in sorted(history.script.lacks):
        history = _without(history, what, random.Random(f"{history.script.seed}/lacks/{what}"))
    return history


def _without(history: TrueHistory, what: str, rng: random.Random) -> TrueHistory:
    tables = dict(history.tables)
    steps = history.steps
    match what:
        case "watermarks":
            tables[what] = []
            history = replace(history, lost=tuple(one for one in history.lost if one.kind != FALL))
        case "replicas" | "configs" | "brokers":
            tables[what] = []
        case "polls-epochs":
            tables["polls"] = [{**row, "leader_epoch": None} for row in tables["polls"]]
            history = replace(history, lost=tuple(one for one in history.lost if one.kind != VANISHED))
        case "sends-offsets":
            gone = {row["value"] for row in tables["sends"] if rng.random() < 0.2}
            tables["sends"] = [row for row in tables["sends"] if row["value"] not in gone]
            lost = tuple(one for one in history.lost if one.kind != LOST or one.value not in gone)
            history = replace(history, lost=lost)
        case "log-ends" | "node-times":
            steps = None if steps is None else [_poorer(step, what) for step in steps]
        case "steps":
            steps = None
        case "metadata-gap":
            rows = tables["partitions"]
            gone = set(rng.sample(range(1, len(rows)), min(2, len(rows) - 1))) if len(rows) > 2 else set()
            if rng.random() < 0.25:
                gone.add(0)
            tables["partitions"] = [row for place, row in enumerate(rows) if place not in gone]
            history = replace(history, skipped=history.skipped + len(gone))
        case "metadata-tail":
            end = history.log_ends - rng.randint(1, 12)
            for name in ("partitions", "brokers", "configs"):
                tables[name] = [row for row in tables[name] if row["metadata_offset"] < end]
            history = replace(history, log_ends=end, is_torn=True)
    return replace(history, tables=tables, steps=steps)


def _poorer(step: StepEntry, what: str) -> StepEntry:
    if what == "node-times":
        return _replaced(step, of_node={})
    proof = {key: value for key, value in step.proof.items() if key not in ("logs", "lost_bytes")}
    if "nodes" in proof:
        kept = ("holds",)
        proof["nodes"] = {node: {key: own[key] for key in kept if key in own} for node, own in proof["nodes"].items()}
    return _replaced(step, proof=proof)


def _replaced(step: StepEntry, **fields: object) -> StepEntry:
    return msgspec.structs.replace(step, **fields)
