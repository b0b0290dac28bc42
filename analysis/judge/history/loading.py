"""Reads from a record what causes are judged from."""

from __future__ import annotations

from collections.abc import Mapping

from analysis.judge.history.clock_steps import AGREE_NS, CLOCKS_AGREE_NS, clock_doubt
from analysis.judge.history.epochs import load_epochs
from analysis.judge.history.evidence import Evidence
from analysis.judge.history.requests import requests
from analysis.judge.history.rules import Rules
from analysis.judge.history.stops import stops
from analysis.judge.history.timeline import load_timeline, watched_timeline
from analysis.record.record import Record
from ebbtide.record.log_losses import log_losses


def load_evidence(
    record: Record,
    *,
    statics: Mapping[str, str] | None,
    prompt: frozenset[int] = frozenset(),
) -> Evidence:
    """Read the evidence of a record.

    `statics` are the controllers' own properties; None: not known. `prompt` are the prompt consumers. Of a cluster
    that was only watched, the record has what people said and no proof, so that neither counts.
    Raises `UsageError` when a table is damaged.
    """
    manifest, steps = record.manifest, record.split_steps
    timeline = load_timeline(record)
    no_steps = "steps.jsonl is missing"
    if manifest.watch is not None:
        timeline = watched_timeline(record, timeline, manifest.watch)
        steps, statics, no_steps = None, None, "nobody recorded what happened to this cluster"
    return Evidence(
        record=record,
        timeline=timeline,
        rules=Rules(manifest, timeline),
        epochs=load_epochs(record),
        log_losses=None if steps is None else log_losses(list(steps)),
        asked=None if steps is None else requests(steps),
        stops=stops(steps or ()),
        ends_early=timeline.torn or manifest.status != "complete",
        statics=statics,
        prompt_consumers=prompt,
        clock=clock_doubt(record, timeline, steps, apart_ns=AGREE_NS if manifest.watch is None else CLOCKS_AGREE_NS),
        no_steps=no_steps,
    )
