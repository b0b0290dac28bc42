"""What a night does about a contradiction: has it again three times, then makes it smaller."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from pathlib import Path

import msgspec

from analysis.verdict import Verdict
from harness.campaign.store import Done, Followup, Store
from harness.campaign.trend import trend
from harness.errors import EbbtideError
from harness.record.files import write_atomically
from harness.replay.recorded import load_recorded
from harness.replay.replaying import judged, run_replays, summaries
from harness.runner.display import Display
from harness.runner.launch import Launch
from harness.shrink.shrinking import shrink

REPLAYS = 3
"""How often a contradiction is had again, and how often what it was shrunk to."""
SHRINK_AT_MOST_S = 1800.0


def wanting(history: Sequence[Done], night: str, known: Sequence[Followup]) -> list[Done]:
    """Contradictions of `night` that are new and were not followed up yet: what every night shows is known."""
    new, followed = set(trend(history, night).new), {one.run_id for one in known}
    first: dict[str, Done] = {}
    for done in history:
        is_new = done.job.origin == "random" or done.job.group in new
        if (
            done.night == night
            and done.ended == "contradicted"
            and not done.expected
            and is_new
            and done.run_id is not None
        ):
            first.setdefault(done.job.group, done)
    return [done for done in first.values() if done.run_id not in followed]


def follow_up(
    store: Store,
    done: Done,
    *,
    launch: Launch,
    judge: Callable[[Path], Verdict],
    display: Display,
    until_s: float,
) -> Followup:
    """Replay, then shrink while there is time (`until_s`, seconds since the epoch)."""
    assert done.run_id is not None
    found = Followup(run_id=done.run_id)
    try:
        recorded = load_recorded(store.runs / done.run_id)
        kafka = recorded.manifest.kafka
        ran = list(run_replays(recorded, [kafka], times=REPLAYS, seed=None, launch=launch, display=display))
        [summary] = summaries(recorded, [judged(recorded, one, judge) for one in ran])
        found = msgspec.structs.replace(found, times=summary.times, same=summary.same)
        left_s = until_s - time.time()
        if not summary.same:
            return msgspec.structs.replace(found, failure="it did not come again")
        if left_s <= 0:
            return msgspec.structs.replace(found, failure="no time was left")
        small = shrink(
            recorded,
            launch=launch,
            judge=judge,
            display=display,
            budget_s=min(SHRINK_AT_MOST_S, left_s),
            times=REPLAYS,
        )
    except EbbtideError as error:
        return msgspec.structs.replace(found, failure=error.what)
    path = store.night_folder(done.night) / f"{done.job.scenario}-{kafka}-shrunk.toml"
    write_atomically(path, small.text.encode())
    steps, before = len(small.smaller.scenario.steps), len(recorded.scenario.steps)
    return msgspec.structs.replace(found, smaller=str(path), steps=steps, steps_before=before)
