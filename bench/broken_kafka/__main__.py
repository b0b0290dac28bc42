"""Plants bugs in real Kafka 4.3.1, one at a time, and prints which of them Ebbtide catches.

    .venv/bin/python -m bench.broken_kafka [NAME...]
    .venv/bin/python -m bench.broken_kafka nothing       the control, over all scenarios of the list

It runs as root, from a checkout. Each bug runs with the scenarios that the list names for it. What ran stays in
bench/results/broken-kafka.json, and does not run again unless you say --again. What the control did again is added to
what it did before. The judge runs in a process without the agent. Exit code 1 if a bug that acted was missed, or if
the control was accused.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path

from bench.broken_kafka.agent import CONTROL, environment_of
from bench.broken_kafka.bugs import KAFKA, Bug, read_bugs
from bench.broken_kafka.kept import Row, commit_of_checkout, read_rows, write_rows
from bench.broken_kafka.outcome import classify, count_of_acts, failures_in, seen_by
from ebbtide.record.files import RecordFolder
from ebbtide.record.manifest import records_of
from ebbtide.record.verdict import Verdict, read_verdict

RECORDS = Path("build") / "broken-kafka"
_EXIT_CODE = "exit-code"
"""The file beside a record whose run has ended; a failed run has a record, too."""
_LOAD = "load"
"""The file beside a record with the host's load of the last minute, as the run ended."""
_RUN_TIMEOUT_S = 900.0
_JUDGE_TIMEOUT_S = 3600.0
COMMAND = (sys.executable, "-m", "ebbtide")
Key = tuple[str, str]


def runs_of(names: Sequence[str], bugs: dict[str, Bug]) -> list[Key]:
    """Return each bug with each of its scenarios; the control with all of them."""
    runs: list[Key] = []
    for name in names or [*bugs, CONTROL]:
        chosen = [bugs[name]] if name in bugs else bugs.values()
        scenarios = dict.fromkeys(scenario for bug in chosen for scenario in bug.scenarios)
        runs += [(name, scenario) for scenario in scenarios]
    return runs


def record_of(key: Key, records: Path) -> Path | None:
    """Return the newest record of a run that has ended; None: there is none."""
    folder = records / "-".join(key)
    return max(records_of(folder), default=None) if (folder / _EXIT_CODE).is_file() else None


def record(key: Key, records: Path, bug: Bug | None, scenario: str | None = None) -> None:
    """Run a scenario with the agent in its nodes, and judge nothing. `scenario`: its file, if it is not shipped."""
    name, word = key
    scenario = scenario or word
    folder = records / "-".join(key)
    folder.mkdir(parents=True, exist_ok=True)
    (folder / _EXIT_CODE).unlink(missing_ok=True)
    command = [*COMMAND, "run", scenario, "--kafka", KAFKA, "--runtime", "local", "--no-judge", "--runs", str(folder)]
    with (folder / "output.txt").open("wb") as output:
        print(f"{name}: {scenario} ...", flush=True)
        done = subprocess.run(
            command, env=environment_of(bug), stdout=output, stderr=output, timeout=_RUN_TIMEOUT_S, check=False
        )
    (folder / _LOAD).write_text(f"{os.getloadavg()[0]:.0f}\n")
    (folder / _EXIT_CODE).write_text(f"{done.returncode}\n")


def judge(records: Sequence[Path]) -> None:
    """Judge records in a process that has no agent."""
    environment = {name: value for name, value in os.environ.items() if name != "JAVA_TOOL_OPTIONS"}
    command = [*COMMAND, "analyze", *map(str, records)]
    subprocess.run(command, env=environment, stdout=subprocess.DEVNULL, timeout=_JUDGE_TIMEOUT_S, check=False)


def _verdict_of(path: Path | None) -> Verdict | None:
    if path is None or not (path / "verdict.json").is_file():
        return None
    return read_verdict(RecordFolder(path))


def row_of(key: Key, path: Path | None, commit: str) -> Row:
    """Return what became of a run; without a record or a verdict, the harness failed."""
    acts = count_of_acts(path) if path is not None else 0
    verdict = _verdict_of(path)
    for failure in failures_in(path) if path is not None else ():
        print(f"{key[0]}: {failure}")
    caught = classify(verdict, acts, is_control=key[0] == CONTROL)
    load = path.with_name(_LOAD) if path is not None else None
    return Row(
        bug=key[0],
        scenario=key[1],
        acted=acts,
        caught=caught,
        seen_by=seen_by(verdict),
        load=load.read_text().strip() if load is not None and load.is_file() else "",
        commit=commit,
    )


def table(rows: Sequence[Row]) -> Iterator[str]:
    """Yield the table, at most 80 columns wide."""
    yield f"{'bug':<33} {'scenario':<27.27} {'acted':>6} caught"
    for row in rows:
        yield f"{row.bug:<33.33} {row.scenario:<27.27} {row.acted:>6} {row.caught}"


def main() -> int:
    """Run what is missing, keep it, and print the table."""
    bugs = read_bugs()
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("names", nargs="*", metavar="NAME", help=f"bugs of the list, or {CONTROL}; all by default")
    parser.add_argument("--again", action="store_true", help="run again what ran before")
    parser.add_argument("--no-judge", action="store_true", help="only record what is missing")
    parser.add_argument("--no-record", action="store_true", help="only judge what was recorded")
    parser.add_argument("--records", type=Path, default=RECORDS, help=f"where the records are (default: {RECORDS})")
    args = parser.parse_args()
    for name in args.names:
        if name not in bugs and name != CONTROL:
            parser.error(f"{name} is no bug of bench/broken_kafka/bugs.toml")
    runs, rows, commit = runs_of(args.names, bugs), read_rows(), commit_of_checkout()
    pending = [key for key in runs if args.again or key not in rows]
    for key in pending:
        if not args.no_record and (args.again or record_of(key, args.records) is None):
            record(key, args.records, bugs.get(key[0]))
    if args.no_judge:
        return 0
    found = {key: record_of(key, args.records) for key in pending}
    recorded = {key: path for key, path in found.items() if path is not None or not args.no_record}
    unjudged = [path for path in recorded.values() if path is not None]
    if unjudged:
        judge(unjudged)
    # Another process may have kept rows meanwhile.
    rows = read_rows()
    for key, path in recorded.items():
        row = row_of(key, path, commit)
        is_one_more = key[0] == CONTROL and key in rows and not args.no_record
        rows[key] = row.after(rows[key]) if is_one_more else row
    write_rows(rows, bugs)
    shown = [rows[key] for key in runs if key in rows]
    print("\n".join(table(shown)))
    accused = [row for row in shown if row.bug == CONTROL and row.caught in ("clause", "prediction")]
    missed = [row for row in shown if row.bug != CONTROL and row.caught == "missed"]
    return int(bool(accused or missed))


if __name__ == "__main__":
    sys.exit(main())
