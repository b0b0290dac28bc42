"""What nights do about a contradiction: have it again three times, then make it smaller."""

from __future__ import annotations

import time
from collections import defaultdict
from collections.abc import Callable, Collection, Iterator, Sequence
from pathlib import Path

import msgspec

from ebbtide.errors import EbbtideError, UsageError
from ebbtide.locks import NotHeld
from ebbtide.record.files import write_atomically
from ebbtide.record.manifest import read_manifest, records_of
from ebbtide.record.verdict import Verdict
from harness.nightly.store import Done, Followup, NightPlan, Store
from harness.replay.plan import plan
from harness.replay.recorded import Recorded, load_recorded
from harness.replay.replaying import Ran, judged, run_replays, summaries
from harness.runner.display import Display
from harness.runner.launch import Launch
from harness.shrink.search import NotReproduced
from harness.shrink.shrinking import shrink

REPLAYS = 3
"""How often a contradiction is had again, and how often what it was shrunk to."""
SHRINK_AT_MOST_S = 1800.0
SHARE = 1 / 3
"""Of the budget: a night of many contradictions still runs its catalogue."""


def wanting(
    history: Sequence[Done],
    night: str,
    *,
    settled: Collection[str],
    tried: Collection[str],
    there: Callable[[str], bool],
) -> list[Done]:
    """Contradictions that no night has followed up with success, those of `night` first, then the newest first.

    One a group: the first since the group was as predicted for a night, whose record is still `there`. What every
    night shows is wanted once. `settled` and `tried` are run ids: followed up with success, and tried this night.
    """
    groups: dict[str, dict[str, list[Done]]] = defaultdict(lambda: defaultdict(list))
    for done in history:
        groups[done.job.group][done.night].append(done)
    wanted = []
    for nights in groups.values():
        standing = _standing(nights)
        ids = {str(done.run_id) for done in standing}
        left = [done for done in standing if there(str(done.run_id))]
        if left and not ids.intersection(settled) and not ids.intersection(tried):
            # The first, even of an older night: a follow-up that was cut short goes on from its record.
            wanted.append((any(done.night == night for done in standing), left[0]))
    order = {id(done): at for at, done in enumerate(history)}
    return [
        *(done for now, done in wanted if now),
        *sorted((done for now, done in wanted if not now), key=lambda done: order[id(done)], reverse=True),
    ]


def _standing(nights: dict[str, list[Done]]) -> list[Done]:
    """The newest contradictions of a group that no night as predicted lies between."""
    found: list[Done] = []
    fresh = True
    for night in sorted(nights):
        new = [
            done
            for done in nights[night]
            if done.ended == "contradicted" and not done.expected and done.run_id is not None
        ]
        if new:
            found = new if fresh else found + new
            fresh = False
        elif all(done.ended == "as-predicted" for done in nights[night]):
            fresh = True
    return found


def wanted(store: Store, night: str, *, tried: Collection[str] = ()) -> list[Done]:
    """What of a store is to be followed up, in order, but for the runs `tried`."""
    return wanting(
        store.history(),
        night,
        settled={one.run_id for one in store.all_followups() if one.settled},
        tried=tried,
        there=lambda run_id: (store.runs / run_id).is_dir(),
    )


class FollowingUp:
    """Follows contradictions up, one after the other, within a share of the night's budget."""

    def __init__(
        self,
        store: Store,
        night_plan: NightPlan,
        *,
        carry_out: Callable[[Done, float], Followup],
        budget_s: float,
        tell: Callable[[str], None],
        clock: Callable[[], float] = time.time,
    ) -> None:
        """`carry_out` follows one up until a time in seconds since the epoch."""
        self._store = store
        self._night = night_plan.night
        self._carry_out = carry_out
        self._budget_s = budget_s
        self._tell = tell
        self._clock = clock

    def run(self, *, until_s: float, share: float = SHARE) -> None:
        """Follow up what is wanted until a time; none is begun when those of this night took `share` of the budget."""
        tried = [one.run_id for one in self._store.followups(self._night)]
        for done in wanted(self._store, self._night, tried=tried):
            now_s = self._clock()
            spent_s = sum(one.took_s for one in self._store.followups(self._night))
            left_s = min(until_s - now_s, share * self._budget_s - spent_s)
            if left_s <= 0:
                return
            self._tell(f"{done.job.key}: contradicted: replaying it, then making it smaller")
            one = self._carry_out(done, now_s + left_s)
            self._store.append_followup(self._night, msgspec.structs.replace(one, took_s=self._clock() - now_s))
            self._tell(f"{done.job.key}: {one.told()}")


def follow_up(
    store: Store,
    done: Done,
    *,
    launch: Launch,
    judge: Callable[[Path], Verdict],
    display: Display,
    until_s: float,
    jobs: int,
    log: Path,
) -> Followup:
    """Replay, then shrink, and begin no run after `until_s` (seconds since the epoch) but one that confirms a result.

    Each run has a process of its own, which is ended if it hangs. What replays say goes to `log`.
    """
    assert done.run_id is not None
    found = Followup(run_id=done.run_id, settled=False)
    try:
        recorded = load_recorded(store.runs / done.run_id)
        ran = list(_replays(store, recorded, launch, display, jobs, log, until_s))
        if len(ran) < REPLAYS:
            return msgspec.structs.replace(found, failure="no time was left to replay it")
        replays = [judged(recorded, one, judge) for one in ran]
        [summary] = summaries(recorded, replays)
        found = msgspec.structs.replace(found, times=summary.times, same=summary.same)
        failures = [one.failure for one in replays if one.failure is not None]
        left_s = until_s - time.time()
        if not summary.same:
            failure = failures[0] if failures else "it did not come again"
            return msgspec.structs.replace(found, failure=failure, settled=not failures)
        if left_s <= 0:
            return msgspec.structs.replace(found, failure="no time was left")
        small = shrink(
            recorded,
            launch=launch,
            judge=judge,
            display=display,
            budget_s=min(SHRINK_AT_MOST_S, left_s),
            times=REPLAYS,
            jobs=jobs,
            apart=True,
        )
    except EbbtideError as error:
        # These say something about the record, unless they came for want of time; others, about the host.
        about_record = isinstance(error, UsageError | NotReproduced) and not isinstance(error, NotHeld)
        about_it = about_record and found.times > 0 and time.time() < until_s
        return msgspec.structs.replace(found, failure=error.what, settled=about_it)
    path = store.night_folder(done.night) / f"{done.job.scenario}-{str(done.job.target).replace(':', '-')}-shrunk.toml"
    write_atomically(path, small.text.encode())
    steps, before = len(small.smaller.scenario.steps), len(recorded.scenario.steps)
    settled = small.smaller.finished or time.time() < until_s
    return msgspec.structs.replace(found, smaller=str(path), steps=steps, steps_before=before, settled=settled)


def _replays(
    store: Store, recorded: Recorded, launch: Launch, display: Display, jobs: int, log: Path, until_s: float
) -> Iterator[Ran]:
    """Those that a killed or cut short follow-up left, then as many as are missing and there is time for."""
    run_id, kafka = recorded.manifest.run_id, recorded.manifest.kafka
    left = list(replays_of(run_id, kafka, store.runs))[:REPLAYS]
    planned = plan(recorded, kafka=kafka)
    yield from (Ran(kafka=kafka, plan=planned, record=record) for record in left)
    if len(left) < REPLAYS:
        times = REPLAYS - len(left)
        yield from run_replays(
            recorded,
            [kafka],
            times=times,
            seed=None,
            launch=launch,
            display=display,
            jobs=jobs,
            log=log,
            until_s=until_s,
        )


def replays_of(run_id: str, kafka: str, runs: Path) -> Iterator[Path]:
    """Complete replays of a run on its own release, oldest first."""
    for record in records_of(runs):
        try:
            manifest = read_manifest(record)
        except UsageError:
            continue
        if (manifest.replay_of, manifest.kafka, manifest.status) == (run_id, kafka, "complete"):
            yield record
