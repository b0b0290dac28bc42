"""bench/results/advised.json, and its tables: each kind of line of the advice, and what its run showed.

bench.advise_clusters adds what it ran. The file keeps the results of earlier runs, whose records are elsewhere.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from pathlib import Path
from typing import Literal

import msgspec

from ebbtide.record.files import write_atomically

STORED = Path(__file__).resolve().parent / "results" / "advised.json"
_KINDS = {
    "ELR": "With the ELR",
    "no ELR": "Without the ELR",
    "no ELR, old metadata.version": "Without the ELR, at metadata.version 8",
}
_OPEN = ("inconclusive", "not judged")


class LineRun(msgspec.Struct, frozen=True, kw_only=True):
    """What the scenario of a line showed on real Kafka: `lost` are committed records."""

    kafka: str
    outcome: str
    lost: int


class MeasuredLine(msgspec.Struct, frozen=True, kw_only=True):
    """A kind of line with acks=all: alike are the ELR, the settings, the event and the answer.

    `key` is these four, as kind/settings/event/answer. `clusters` are those that have it. `ran` is None where its
    scenario was not run yet.
    """

    key: str
    event: str
    says: str
    clusters: tuple[str, ...]
    has_scenario: bool
    ran: LineRun | None = None

    def kind_and_settings(self) -> tuple[str, str]:
        """Return the kind of cluster and the settings of the topics."""
        kind, settings, *_ = self.key.split("/")
        return kind, settings

    def agreement(self) -> Literal["agrees", "differs", "inconclusive", "not run"]:
        """Return whether real Kafka did what the line says."""
        if self.ran is None:
            return "not run"
        if self.ran.outcome in _OPEN:
            return "inconclusive"
        return "agrees" if (self.ran.lost > 0) == (self.says == "loses") else "differs"


def read_stored() -> dict[str, MeasuredLine]:
    """What bench/results/advised.json holds, by key."""
    rows = msgspec.json.decode(STORED.read_bytes(), type=list[MeasuredLine]) if STORED.is_file() else []
    return {row.key: row for row in rows}


def keys_with_results() -> set[str]:
    """Return the keys of the lines whose runs said something."""
    return {key for key, line in read_stored().items() if line.agreement() in ("agrees", "differs")}


def merge_lines(stored: dict[str, MeasuredLine], new: Collection[MeasuredLine]) -> list[MeasuredLine]:
    """Return the new lines; a line that was not run again keeps its earlier result."""
    merged = []
    for line in new:
        before = stored.get(line.key)
        merged.append(msgspec.structs.replace(line, ran=before.ran) if line.ran is None and before else line)
    return sorted(merged, key=lambda one: one.key)


def counts_in_words(lines: Sequence[MeasuredLine]) -> str:
    """Return how many lines ran, and how many agree."""
    with_scenario = [one for one in lines if one.has_scenario]
    ran = [one for one in with_scenario if one.ran is not None]

    def count(says: str, agreement: str) -> int:
        return sum(one.says == says and one.agreement() == agreement for one in ran)

    parts = [
        f"Of {len(with_scenario)} kinds of lines with a scenario, {len(ran)} ran:",
        "",
        f"- {count('loses', 'agrees')} that say *loses* lost committed records, {count('loses', 'differs')} lost none,",
        f"- {count('survives', 'agrees')} that say *survives* lost none, {count('survives', 'differs')} lost some,",
        f"- {sum(one.agreement() == 'inconclusive' for one in ran)} were inconclusive.",
    ]
    return "\n".join(parts)


class LinesTable(msgspec.Struct, frozen=True, kw_only=True):
    """The lines of one kind of cluster: a row for each event, a column for the settings of the topics."""

    kind: str
    columns: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]


def tables(lines: Sequence[MeasuredLine]) -> Iterator[LinesTable]:
    """Yield a table for each kind of cluster."""
    for kind, heading in _KINDS.items():
        those = [line for line in lines if line.kind_and_settings()[0] == kind]
        settings = sorted({line.kind_and_settings()[1] for line in those})
        rows = tuple(
            (
                event,
                *(
                    _cell([line for line in those if (line.event, line.kind_and_settings()[1]) == (event, name)])
                    for name in settings
                ),
            )
            for event in sorted({line.event for line in those}, key=_order_of)
        )
        if rows:
            yield LinesTable(kind=heading, columns=("event", *settings), rows=rows)


def _order_of(event: str) -> tuple[int, str]:
    what, _, when = event.rpartition(", ")
    return ("in sync", "one after the other", "at the worst moment").index(when), what


def _cell(lines: Sequence[MeasuredLine]) -> str:
    return "<br>".join(_parts_of(lines)) or "-"


def _parts_of(lines: Sequence[MeasuredLine]) -> Iterator[str]:
    for line in lines:
        if line.ran is None:
            yield f"({line.says})"
            continue
        found = (
            "inconclusive" if line.agreement() == "inconclusive" else f"{line.ran.lost:,}" if line.ran.lost else "none"
        )
        if line.ran.outcome == "contradicted":
            found += ", contradicted"
        if line.agreement() == "differs":
            found = f"**{found}, but the line says {line.says}**"
        yield f"{found} [{line.ran.kafka}]"


def write(lines: Sequence[MeasuredLine]) -> None:
    """Write bench/results/advised.json."""
    write_atomically(STORED, msgspec.json.format(msgspec.json.encode(list(lines)), indent=1) + b"\n")
