"""Measures how often a recorded run of each scenario repeats.

Run `python -m tools.pages.replays RUNS --times 20` as root. RUNS is a folder of records, such as STORE/runs of
`ebbtide nightly --store STORE`.

- It replays one record of each scenario of the catalogue, preferably one that lost records.
- The scenario with the fewest replays is next, `--each` times, until all have `--times`.
- It adds the results to bench/results/replayed.json; `python -m tools.pages.measurements` shows them.
- It starts no replay after `--budget-m`; the same command continues another day.
- It judges the recorded run again with the first of its replays.
- It keeps replays that it could not compare with the recorded run, and stderr says where.
"""

from __future__ import annotations

import argparse
import contextlib
import shutil
import sys
import tempfile
import time
from collections.abc import Collection, Iterator, Mapping, Sequence
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from statistics import mean

import msgspec
from rich.console import Console

from ebbtide.errors import EbbtideError, HarnessError, UsageError
from ebbtide.record.files import RecordFolder, write_atomically
from ebbtide.record.manifest import read_manifest, records_of
from ebbtide.record.verdict import read_verdict
from ebbtide.releases.known_releases import spell_release
from ebbtide.scenario.catalogue import names
from ebbtide.scenario.model import MAX_BROKERS
from harness.cli.analyze_stdin import JudgingSession, judge_together
from harness.replay.compare import Repetition
from harness.replay.finding import finding
from harness.replay.recorded_run import LoadedRun, load_run
from harness.replay.replaying import JudgeAll, Replay, judge_replays, run_replays, with_recorded_power_loss
from harness.runner.display import PlainDisplay
from harness.runner.launch import LaunchOptions, check, prepare
from tools.pages.measured import RESULTS, Measured

MEASURED = RESULTS / "replayed.json"
AIM_PERCENT = 95
TIMES = 20
AT_ONCE = 2
"""Replays at once: what two cores carry, of clusters of up to three brokers."""

_ABOUT = (
    "One recorded run of each scenario was replayed on its own release, up to two replays at once. *same* counts the "
    "replays with the same outcome and cause. *fidelity* is the mean of the replays ([replay](replay.md))."
)


class Departure(msgspec.Struct, frozen=True, kw_only=True):
    """A replay with another outcome or cause, and where it first departed.

    It also has what the replay found.
    """

    found: str
    first: str


class ReplayResults(msgspec.Struct, frozen=True, kw_only=True):
    """The results of the replays of a run.

    `times` replays finished. `fidelity` is their mean, from 0 to 1. `runs` names the recorded run, or several if the
    first was removed before all replays. `dates` are the days of the replays.
    """

    scenario: str
    runs: tuple[str, ...]
    release: str
    dates: tuple[str, ...]
    recorded: str
    times: int
    same: int
    fidelity: float | None
    departed: tuple[Departure, ...] = ()


def choose_records(runs: Path, known: Collection[str] = ()) -> dict[str, Path]:
    """Return one record for each scenario of the catalogue, by scenario.

    The record was conclusive and is not a replay. A run id in `known` comes first, then a run that lost records as
    predicted, then the newest.
    """
    catalogue = set(names())
    found: dict[str, tuple[tuple[bool, bool, bool], Path]] = {}
    for record in records_of(runs):
        try:
            manifest, verdict = read_manifest(RecordFolder(record)), read_verdict(RecordFolder(record))
        except UsageError as error:
            print(f"left out: {error.render()}", file=sys.stderr)
            continue
        scenario = manifest.scenario
        if scenario not in catalogue or manifest.replay_of is not None:
            continue
        if verdict is None or verdict.outcome == "inconclusive":
            continue
        telling = (manifest.run_id in known, verdict.outcome == "as-predicted", bool(verdict.losses))
        if scenario not in found or telling >= found[scenario][0]:
            found[scenario] = (telling, record)
    return {scenario: record for scenario, (_, record) in sorted(found.items())}


def row(original: LoadedRun, replays: Sequence[Replay], date: str) -> ReplayResults:
    """Return the results of the replays of a run.

    Replays that failed because of the host say nothing, and do not count.
    """
    finished = [(one, one.repetition) for one in replays if one.repetition is not None]
    manifest = original.manifest
    return ReplayResults(
        scenario=manifest.scenario,
        runs=(manifest.run_id,),
        release=spell_release(manifest.kafka, original.scenario.cluster.features),
        dates=(date,),
        recorded=_finding_text(original),
        times=len(finished),
        same=sum(one.is_same for one, _ in finished),
        fidelity=round(mean(repetition.fidelity for _, repetition in finished), 3) if finished else None,
        departed=tuple(_departure_of(one, repetition) for one, repetition in finished if not one.is_same),
    )


def merge_results(before: ReplayResults | None, new: ReplayResults) -> ReplayResults:
    """Return the results of the replays of both.

    Returns `new` alone if the earlier replays were of another finding or release.
    """
    if before is None:
        return new
    if (before.release, before.recorded) != (new.release, new.recorded):
        print(f"{new.scenario}: another finding or release, the {before.times} before are dropped", file=sys.stderr)
        return new
    weighed = [(one.fidelity, one.times) for one in (before, new) if one.fidelity is not None]
    times = before.times + new.times
    return msgspec.structs.replace(
        new,
        runs=tuple(dict.fromkeys((*before.runs, *new.runs))),
        dates=tuple(dict.fromkeys((*before.dates, *new.dates))),
        times=times,
        same=before.same + new.same,
        fidelity=round(sum(fidelity * count for fidelity, count in weighed) / times, 3) if times else None,
        departed=(*before.departed, *new.departed),
    )


def _departure_of(replay: Replay, repetition: Repetition) -> Departure:
    verdict = replay.run.verdict if replay.run is not None else None
    why = f" ({'; '.join(verdict.why)})" if verdict is not None and verdict.outcome == "inconclusive" else ""
    return Departure(
        found=f"{_finding_text(replay.run)}{why}",
        first=repetition.departures[0].describe() if repetition.departures else "nowhere",
    )


def _finding_text(run: LoadedRun | None) -> str:
    return finding(run.verdict).describe() if run is not None and run.verdict is not None else "not judged"


def measured(rows: Sequence[ReplayResults]) -> Measured:
    """Return a row for each scenario."""
    times, same = sum(row.times for row in rows), sum(row.same for row in rows)
    counts = [f"- Scenarios: {len(rows)} of {len(names())}", _reached_text(rows)]
    counts.append(f"- Replays: {times:,}; the same: {same:,}")
    return Measured(
        title="How often does a recorded run come again?",
        about="\n".join([_ABOUT, "", *counts, *(remark for row in rows for remark in _remarks(row))]),
        command="python -m tools.pages.replays RUNS",
        commit="several",
        date="in the rows",
        host="two cores",
        columns=("scenario", "release", "recorded", "same", "fidelity", "measured"),
        rows=tuple(_cells(row) for row in rows),
    )


def _cells(row: ReplayResults) -> tuple[str, ...]:
    return (
        row.scenario,
        row.release,
        row.recorded,
        f"{row.same} of {row.times}",
        "-" if row.fidelity is None else f"{row.fidelity:.2f}",
        f"{row.dates[0]}{f' to {row.dates[-1]}' if len(row.dates) > 1 else ''}",
    )


def _remarks(row: ReplayResults) -> Iterator[str]:
    for departed in row.departed:
        yield f"- {row.scenario}: {departed.found}; {departed.first}"
    if len(row.runs) > 1:
        yield f"- {row.scenario}: of {len(row.runs)} recorded runs"


def _reached_text(rows: Sequence[ReplayResults]) -> str:
    """Return how many scenarios reach the aim.

    Counts scenarios that were replayed too rarely apart.
    """
    often = [one for one in rows if one.times >= TIMES]
    reached = sum(100 * one.same >= AIM_PERCENT * one.times for one in often)
    told = f"- Replayed {TIMES} times or more: {len(often)}; {AIM_PERCENT} % or more the same: {reached}"
    counts = [one.times for one in rows if one.times < TIMES]
    if not counts:
        return told
    span = f"{min(counts)} to {max(counts)} times" if min(counts) < max(counts) else f"{counts[0]} times"
    always = sum(one.same == one.times for one in rows if one.times < TIMES)
    return f"{told}\n- Replayed {span}, too few for that rate: {len(counts)}; the same every time: {always}"


def read_stored() -> dict[str, ReplayResults]:
    """What bench/results/replayed.json holds, by scenario."""
    rows = msgspec.json.decode(MEASURED.read_bytes(), type=list[ReplayResults]) if MEASURED.is_file() else []
    return {row.scenario: row for row in rows}


def write(rows: Mapping[str, ReplayResults]) -> None:
    """Write bench/results/replayed.json."""
    ordered = [one for _, one in sorted(rows.items())]
    write_atomically(MEASURED, msgspec.json.format(msgspec.json.encode(ordered), indent=1) + b"\n")


def measure(record: Path, folder: Path, times: int, keep: Path | None, judge: JudgeAll) -> ReplayResults:
    """Replay a record so many times in `folder`.

    Judges the record again, too. Raises `EbbtideError` if this host cannot do it.
    """
    original = load_run(record)
    kafka = original.manifest.kafka
    options = with_recorded_power_loss(original, LaunchOptions(runs=folder))
    check(options, original.scenario, [kafka])
    with PlainDisplay(Console(stderr=True)) as display:
        launch = prepare(options, [kafka], display.note, original.scenario.other_releases)
        jobs = min(AT_ONCE, MAX_BROKERS // original.scenario.cluster.brokers)
        ran = list(run_replays(original, [kafka], times=times, seed=None, launch=launch, display=display, jobs=jobs))
    original, replays = judge_replays(original, ran, judge, _note)
    for run, same in ((one.run, one.is_same) for one in replays if one.run is not None):
        if keep is not None and not same:
            shutil.move(run.folder, keep / run.folder.name)
        else:
            shutil.rmtree(run.folder)
    return row(original, replays, f"{datetime.now(UTC):%Y-%m-%d}")


@contextlib.contextmanager
def replay_folder(place: Path, keep: Path | None) -> Iterator[Path]:
    """Yield a folder for replays in `place`, and remove it at the end.

    Complete records that are left are kept, in `keep` if given.
    """
    folder = Path(tempfile.mkdtemp(prefix=".replays-", dir=place))
    try:
        yield folder
    finally:
        left = [record for record in records_of(folder) if _is_complete(record)]
        if keep is not None:
            left = [Path(shutil.move(record, keep / record.name)) for record in left]
        if left:
            _note(f"replayed, not compared, and kept: ebbtide analyze {' '.join(map(str, left))}")
        if keep is not None or not left:
            shutil.rmtree(folder)


def _is_complete(record: Path) -> bool:
    """Whether its run came to its end, as far as can be read."""
    try:
        return read_manifest(RecordFolder(record)).status == "complete"
    except UsageError:
        return True


def _note(line: str) -> None:
    print(line, file=sys.stderr)


def replay_all(
    left: dict[str, Path], times: int, each: int, keep: Path | None, budget_m: float, anew: Collection[str]
) -> int:
    """Replay the records, the scenario with the fewest replays first.

    Returns 1 if a record could not be replayed. Replays of scenarios in `anew` count from 0; their
    old results stay in the files until there are new ones.
    """
    rows = read_stored()
    before = {name: one for name, one in rows.items() if name not in anew}
    until, code = time.monotonic() + budget_m * 60, 0
    with contextlib.closing(JudgingSession()) as session:
        judge = partial(judge_together, session)
        while short := {name: have for name in left if (have := before[name].times if name in before else 0) < times}:
            if time.monotonic() > until:
                print("the budget is over", file=sys.stderr)
                break
            scenario = min(short, key=lambda name: short[name])
            record, began = left[scenario], time.monotonic()
            try:
                # Beside the records: power is lost by the method of that file system.
                with replay_folder(record.parent, keep) as folder:
                    many = min(each, times - short[scenario])
                    new = measure(record, folder, many, keep, judge)
                if not new.times:
                    raise HarnessError("every replay failed", where=str(record))
            except EbbtideError as error:
                print(f"{scenario}: {error.render()}", file=sys.stderr)
                del left[scenario]
                code = 1
                continue
            rows[scenario] = before[scenario] = merge_results(before.get(scenario), new)
            write(rows)
            print(f"{scenario}: {new.same} of {new.times}, {time.monotonic() - began:.0f} s", flush=True)
    return code


def main(argv: Sequence[str]) -> int:
    """Replay, and write the results after each scenario.

    Returns 1 if a record could not be replayed.
    """
    parser = argparse.ArgumentParser(
        prog="python -m tools.pages.replays", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("runs", type=Path, metavar="RUNS")
    parser.add_argument("--times", type=int, default=TIMES, help=f"replays of each run in the end (default {TIMES})")
    parser.add_argument("--each", type=int, default=4, help="replays at a time (default 4)")
    parser.add_argument(
        "--keep", type=Path, metavar="FOLDER", help="where records of replays go that were not the same"
    )
    parser.add_argument(
        "--anew", action="append", default=[], metavar="SCENARIO", help="measure it anew; may be repeated"
    )
    parser.add_argument("--budget-m", type=float, default=120.0, help="begin none after so many minutes")
    args = parser.parse_args(argv)
    records = choose_records(
        args.runs, {run for name, one in read_stored().items() if name not in args.anew for run in one.runs}
    )
    if not records:
        parser.error(
            f"{args.runs}: no folder with records of the catalogue that proved something (a store: STORE/runs)"
        )
    if unknown := [name for name in args.anew if name not in records]:
        parser.error(f"--anew {', '.join(unknown)}: {args.runs} has records of {', '.join(records)}")
    if args.keep is not None:
        args.keep.mkdir(parents=True, exist_ok=True)
    return replay_all(records, args.times, args.each, args.keep, args.budget_m, args.anew)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
