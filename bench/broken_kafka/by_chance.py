"""Counts the random schedules that a planted bug survives, until a clause catches it.

    .venv/bin/python -m bench.broken_kafka.by_chance NAME...

It runs as root, from a checkout. Each bug runs under the schedules of `ebbtide random --seed 1`, 2 and so on. It ends
at the first one that a clause catches. What ran stays in bench/results/broken-kafka-random.json.
"""

from __future__ import annotations

import argparse
import datetime
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

from bench.broken_kafka.__main__ import COMMAND, RECORDS, judge, record, record_of, row_of
from bench.broken_kafka.bugs import KAFKA, Bug, read_bugs
from bench.broken_kafka.kept import HOST, Row, commit_of_checkout
from tools.pages.measured import RESULTS, Measured, read_measured, write_measured

FILE = RESULTS / "broken-kafka-random.json"
SEEDS = 20
_COLUMNS = ("bug", "seeds", "acted in", "caught at seed", "seen by", "commit")
_ABOUT = f"""Each bug ran in the nodes of real Kafka {KAFKA} under random schedules, the seeds 1, 2 and so on, until
a clause caught it. No scenario was written for these bugs.
*acted in*: in how many of the runs the bug changed something."""


def draw(seed: int, folder: Path) -> Path:
    """Return the file of the random scenario of a seed."""
    file = folder / f"random-{seed}.toml"
    folder.mkdir(parents=True, exist_ok=True)
    # Another bug may have drawn it, and `random` replaces no file.
    file.unlink(missing_ok=True)
    subprocess.run([*COMMAND, "random", "--seed", str(seed), "--kafka", KAFKA, "--out", str(file)], check=True)
    return file


def rows_until_caught(bug: Bug, seeds: Sequence[int], records: Path, commit: str) -> list[Row]:
    """Run the seeds in their order, up to the first that a clause catches."""
    rows: list[Row] = []
    for seed in seeds:
        file = draw(seed, records)
        key = (bug.name, file.stem)
        if record_of(key, records) is None:
            record(key, records, bug, scenario=str(file))
        path = record_of(key, records)
        judge([path] if path is not None else [])
        rows.append(row_of(key, path, commit))
        print(f"{bug.name}: seed {seed}: {rows[-1].caught}", flush=True)
        if rows[-1].caught == "clause":
            break
    return rows


def cells_of(rows: Sequence[Row]) -> tuple[str, ...]:
    """Return the row of the table for the runs of one bug."""
    last = rows[-1]
    caught = last.scenario.removeprefix("random-") if last.caught == "clause" else "-"
    acted = sum(row.acted > 0 for row in rows)
    return last.bug, str(len(rows)), str(acted), caught, last.seen_by.replace("|", "/"), last.commit


def main() -> int:
    """Run each bug until it is caught, and keep what was seen."""
    bugs = read_bugs()
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("names", nargs="+", metavar="NAME", choices=bugs, help="bugs of the list")
    parser.add_argument("--seeds", type=int, default=SEEDS, help=f"at most so many (default: {SEEDS})")
    parser.add_argument("--records", type=Path, default=RECORDS, help=f"where the records are (default: {RECORDS})")
    args = parser.parse_args()
    kept = {row[0]: row for row in read_measured(FILE).rows} if FILE.is_file() else {}
    for name in args.names:
        rows = rows_until_caught(bugs[name], range(1, args.seeds + 1), args.records, commit_of_checkout())
        kept[name] = cells_of(rows)
        measured = Measured(
            title="How many random schedules until a planted bug is caught?",
            about=_ABOUT,
            command="python -m bench.broken_kafka.by_chance NAME",
            commit="in the rows",
            date=datetime.datetime.now(tz=datetime.UTC).strftime("%Y-%m-%d"),
            host=HOST,
            columns=_COLUMNS,
            rows=tuple(kept[name] for name in bugs if name in kept),
        )
        write_measured(FILE, measured)
    return 0


if __name__ == "__main__":
    sys.exit(main())
