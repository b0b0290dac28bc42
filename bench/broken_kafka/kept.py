"""What is kept of each run: a row of bench/results/broken-kafka.json, which is also the table of the page."""

from __future__ import annotations

import datetime
import subprocess
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence

import msgspec

from bench.broken_kafka.agent import CONTROL
from bench.broken_kafka.bugs import KAFKA, Bug
from bench.broken_kafka.outcome import IN_WORDS, Caught
from tools.pages.measured import RESULTS, ROOT, Measured, read_measured, write_measured

FILE = RESULTS / "broken-kafka.json"
_COLUMNS = ("bug", "area", "scenario", "acted", "caught", "seen by", "what would decide", "load", "commit")
HOST = "two cores with other work"
_BEST: tuple[Caught, ...] = ("clause", "prediction", "half", "missed", "did not act", "clean")


class Row(msgspec.Struct, frozen=True, kw_only=True):
    """One run of one bug, or the runs of the control in one scenario.

    `load`: the host's, over the minute before the run ended, of each run; empty: nobody noted it.
    """

    bug: str
    scenario: str
    acted: int
    caught: Caught
    seen_by: str
    load: str = ""
    commit: str

    @property
    def key(self) -> tuple[str, str]:
        """What the row is about."""
        return self.bug, self.scenario

    def after(self, earlier: Row) -> Row:
        """Return the control's row with this run too: the worst of the runs counts."""
        worst = min(earlier, self, key=lambda row: _BEST.index(row.caught))
        return msgspec.structs.replace(worst, load=f"{earlier.load} {self.load}", commit=self.commit)


def read_rows() -> dict[tuple[str, str], Row]:
    """Return what is kept, by bug and scenario."""
    if not FILE.is_file():
        return {}
    rows = []
    for bug, _, scenario, acted, caught, seen, _, load, commit in read_measured(FILE).rows:
        fields = {"bug": bug, "scenario": scenario, "acted": int(acted), "caught": caught}
        rows.append(msgspec.convert({**fields, "seen_by": seen, "load": load, "commit": commit}, Row))
    return {row.key: row for row in rows}


def write_rows(rows: Mapping[tuple[str, str], Row], bugs: Mapping[str, Bug]) -> None:
    """Keep the rows, those of the control last, the others in the order of the list."""
    order = {name: place for place, name in enumerate((*bugs, CONTROL))}
    kept = sorted((row for row in rows.values() if row.bug in order), key=lambda row: (order[row.bug], row.scenario))
    measured = Measured(
        title="Which planted bugs of Kafka are caught?",
        about=_about(kept, bugs),
        command="make broken-kafkas",
        commit="in the rows",
        date=datetime.datetime.now(tz=datetime.UTC).strftime("%Y-%m-%d"),
        host=HOST,
        columns=_COLUMNS,
        rows=tuple(_cells(row, bugs.get(row.bug)) for row in kept),
    )
    write_measured(FILE, measured)


def _cells(row: Row, bug: Bug | None) -> tuple[str, ...]:
    area = bug.area if bug is not None else "the control"
    decides = (bug.decides or "") if bug is not None and row.caught not in ("clause", "clean") else ""
    seen = row.seen_by.replace("|", "/")
    return row.bug, area, row.scenario, str(row.acted), row.caught, seen, decides, row.load, row.commit


def best_of(rows: Iterable[Row]) -> dict[str, Caught]:
    """Return of each bug the best that one of its scenarios did."""
    found: dict[str, Caught] = {}
    for row in rows:
        known = found.get(row.bug, row.caught)
        found[row.bug] = min(known, row.caught, key=_BEST.index)
    return found


def _about(rows: Sequence[Row], bugs: Mapping[str, Bug]) -> str:
    best = best_of(row for row in rows if row.bug != CONTROL)
    counts = Counter(best.values())
    counts["clean"] = sum(row.caught == "clean" for row in rows)
    lines = [f"- *{caught}*: {counts[caught]}; {words}" for caught, words in IN_WORDS.items()]
    return "\n".join(
        (
            f"Bugs were planted in the nodes of real Kafka {KAFKA}, one at a time, by a Java agent. Each ran with the",
            "scenarios that should see it. `bench/broken_kafka/bugs.toml` has what each bug changes, and its source.",
            "*acted*: how often the bug acted at least. In the control the agent is loaded and changes nothing.",
            "*load*: the host's load over the last minute of each run: the control ran once for each number.",
            "*commit*: that of the newest run.",
            "",
            f"Of {len(bugs)} bugs, {len(best)} ran; each counts by the best of its scenarios:",
            "",
            *lines,
        )
    )


def commit_of_checkout() -> str:
    """Return the commit that is checked out, in short."""
    command = ["git", "-C", str(ROOT), "rev-parse", "--short=8", "HEAD"]
    said = subprocess.run(command, capture_output=True, text=True, check=False)
    return said.stdout.strip() or "unknown"
