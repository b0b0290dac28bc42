"""Follows contradictions up: replays each three times, then shrinks its record."""

from __future__ import annotations

import time
from collections import defaultdict
from collections.abc import Callable, Collection, Iterator, Sequence
from pathlib import Path

import msgspec

from ebbtide.errors import EbbtideError, UsageError
from ebbtide.locks import LockUnavailable
from ebbtide.record.files import RecordFolder, write_atomically
from ebbtide.record.manifest import read_manifest, records_of
from ebbtide.record.verdict import Verdict
from harness.nightly.store import FinishedJob, Followup, NightPlan, Store
from harness.replay.plan import plan
from harness.replay.recorded_run import LoadedRun, load_run
from harness.replay.replaying import UnjudgedReplay, judge_replay, run_replays, summarize
from harness.runner.display import Display
from harness.runner.launch import Launch
from harness.shrink.running import shrink
from harness.shrink.search import NotReproduced, SearchCutShort

REPLAYS = 3
"""How often a contradiction is replayed, and how often its shrunk scenario must reproduce it."""
SHRINK_AT_MOST_S = 1800.0
SHARE = 1 / 3
"""The share of the budget for follow-ups: a night of many contradictions still runs its catalogue."""


def pending_contradictions(
    history: Sequence[FinishedJob],
    night: str,
    *,
    settled: Collection[str],
    tried: Collection[str],
    has_record: Callable[[str], bool],
) -> list[FinishedJob]:
    """Return the contradictions to follow up, those of `night` first, then the newest.

    Each group has at most one: the oldest whose record still exists, among those since the group's last night as
    predicted. A contradiction that every night shows is therefore followed up once. `settled` are the ids of runs
    whose follow-up succeeded, `tried` those that this night already tried; both exclude their group.
    """
    groups: dict[str, dict[str, list[FinishedJob]]] = defaultdict(lambda: defaultdict(list))
    for done in history:
        groups[done.job.group][done.night].append(done)
    wanted = []
    for nights in groups.values():
        unresolved = _unresolved_jobs(nights)
        ids = {str(done.run_id) for done in unresolved}
        left = [done for done in unresolved if has_record(str(done.run_id))]
        if left and not ids.intersection(settled) and not ids.intersection(tried):
            # Take the oldest, even of an earlier night: an interrupted follow-up continues from its record.
            wanted.append((any(done.night == night for done in unresolved), left[0]))
    order = {id(done): at for at, done in enumerate(history)}
    return [
        *(done for now, done in wanted if now),
        *sorted((done for now, done in wanted if not now), key=lambda done: order[id(done)], reverse=True),
    ]


def _unresolved_jobs(nights: dict[str, list[FinishedJob]]) -> list[FinishedJob]:
    """Return a group's contradictions since its last night as predicted, oldest first."""
    found: list[FinishedJob] = []
    fresh = True
    for night in sorted(nights):
        new = [
            done
            for done in nights[night]
            if done.ended == "contradicted" and not done.is_expected and done.run_id is not None
        ]
        if new:
            found = new if fresh else found + new
            fresh = False
        elif all(done.ended == "as-predicted" for done in nights[night]):
            fresh = True
    return found


def pending_followups(store: Store, night: str, *, tried: Collection[str] = ()) -> list[FinishedJob]:
    """Return a store's contradictions to follow up, in order, without runs `tried`."""
    return pending_contradictions(
        store.history(),
        night,
        settled={one.run_id for one in store.all_followups() if one.settled},
        tried=tried,
        has_record=lambda run_id: (store.runs / run_id).is_dir(),
    )


class FollowupRunner:
    """Follows contradictions up in turn, within a share of the night's budget."""

    def __init__(
        self,
        store: Store,
        night_plan: NightPlan,
        *,
        carry_out: Callable[[FinishedJob, float], Followup],
        budget_s: float,
        report: Callable[[str], None],
        clock: Callable[[], float] = time.time,
    ) -> None:
        """`carry_out` follows up one contradiction until a time, in seconds since 1970."""
        self._store = store
        self._night = night_plan.night
        self._carry_out = carry_out
        self._budget_s = budget_s
        self._report = report
        self._clock = clock

    def run(self, *, until_s: float, share: float = SHARE) -> None:
        """Follow up pending contradictions until `until_s`, in seconds since 1970.

        No follow-up starts after those of this night have used `share` of the budget.
        """
        tried = [one.run_id for one in self._store.followups(self._night)]
        for done in pending_followups(self._store, self._night, tried=tried):
            now_s = self._clock()
            spent_s = sum(one.took_s for one in self._store.followups(self._night))
            left_s = min(until_s - now_s, share * self._budget_s - spent_s)
            if left_s <= 0:
                return
            self._report(f"{done.job.label}: contradicted: replaying it {REPLAYS} times, then shrinking it")
            one = self._carry_out(done, now_s + left_s)
            self._store.append_followup(self._night, msgspec.structs.replace(one, took_s=self._clock() - now_s))
            self._report(f"{done.job.label}: {one.describe()}")


def follow_up(
    store: Store,
    done: FinishedJob,
    *,
    launch: Launch,
    judge: Callable[[Path], Verdict],
    display: Display,
    until_s: float,
    jobs: int,
    log: Path,
) -> Followup:
    """Replay a contradiction, then shrink its record.

    After `until_s` (seconds since the Unix epoch) only runs start that confirm a result. Each run has its own
    process, which is ended if it hangs. Replays write their output to `log`.
    """
    assert done.run_id is not None
    found = Followup(run_id=done.run_id, settled=False)
    try:
        recorded = load_run(store.runs / done.run_id)
        ran = list(_replays(store, recorded, launch, display, jobs, log, until_s))
        if len(ran) < REPLAYS:
            return msgspec.structs.replace(found, failure="the time ended before all replays had run")
        replays = [judge_replay(recorded, one, judge) for one in ran]
        [summary] = summarize(recorded, replays)
        found = msgspec.structs.replace(found, times=summary.times, same=summary.same)
        failures = [why for one in replays if (why := one.host_failure) is not None]
        left_s = until_s - time.time()
        if not summary.same:
            failure = failures[0] if failures else "no replay reproduced it"
            return msgspec.structs.replace(found, failure=failure, settled=not failures)
        if left_s <= 0:
            return msgspec.structs.replace(found, failure="the time ended before shrinking began")
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
        # These errors are about the record, unless they came because time ran out; others are about the host.
        about_record = isinstance(error, UsageError | NotReproduced) and not isinstance(error, LockUnavailable)
        about_it = about_record and found.times > 0 and time.time() < until_s
        if isinstance(error, SearchCutShort):
            about_it = about_it and left_s > SHRINK_AT_MOST_S
        return msgspec.structs.replace(found, failure=error.what, settled=about_it)
    path = store.night_folder(done.night) / f"{done.job.scenario}-{str(done.job.target).replace(':', '-')}-shrunk.toml"
    write_atomically(path, small.text.encode())
    steps, before = len(small.smaller.scenario.steps), len(recorded.scenario.steps)
    # Otherwise the end of the night cut it short, not the bound on a shrink. No run starts that would end after it.
    settled = small.smaller.finished or left_s > SHRINK_AT_MOST_S
    return msgspec.structs.replace(
        found,
        smaller=str(path),
        steps=steps,
        steps_before=before,
        kept=tuple(one.index for one in small.kept),
        settled=settled,
    )


def _replays(
    store: Store, recorded: LoadedRun, launch: Launch, display: Display, jobs: int, log: Path, until_s: float
) -> Iterator[UnjudgedReplay]:
    """Yield the replays of an interrupted follow-up, then run the missing ones.

    Runs replays only while there is time.
    """
    run_id, kafka = recorded.manifest.run_id, recorded.manifest.kafka_name
    left = list(complete_replays_of(run_id, kafka, store.runs))[:REPLAYS]
    planned = plan(recorded, kafka=kafka)
    yield from (UnjudgedReplay(kafka=kafka, plan=planned, record=record) for record in left)
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


def complete_replays_of(run_id: str, kafka: str, runs: Path) -> Iterator[Path]:
    """Yield the records of complete replays of a run on its own release, oldest first."""
    for record in records_of(runs):
        try:
            manifest = read_manifest(RecordFolder(record))
        except UsageError:
            continue
        if (manifest.replay_of, manifest.kafka_name, manifest.status) == (run_id, kafka, "complete"):
            yield record
