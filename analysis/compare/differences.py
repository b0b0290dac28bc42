"""Says in words what differs between recorded runs."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import zip_longest

import msgspec

from analysis.report.election_words import ROAD_TEXT
from analysis.report.picture.model import ElectionMark, RunPicture
from analysis.report.summary import JudgedRun, summary_lines
from analysis.report.words import offset_s
from ebbtide.plurals import plural

_SAME_IN_MEANING = ("record", "took", "longest phases", "without leader", "without ack")
"""Lines of the summary that differ from run to run without meaning anything: names and times."""
_DIFFER_BY_PRESENCE = ("guilty election", "elected from ELR")
"""Lines whose ids of brokers mean nothing, but it means something that one run has none."""


class ComparedRow(msgspec.Struct, frozen=True, kw_only=True):
    """One line of the comparison: a cell for each run; `differs` if they do not mean the same."""

    name: str
    cells: tuple[str, ...]
    differs: bool


def rows_of(runs: Sequence[JudgedRun]) -> list[ComparedRow]:
    """Return the figures of the runs side by side, those that differ first."""
    columns = [summary_lines(run) for run in runs]
    rows = []
    for at, (name, _) in enumerate(columns[0]):
        cells = tuple(column[at][1] for column in columns)
        meanings = {cell == "-" for cell in cells} if name in _DIFFER_BY_PRESENCE else set(cells)
        rows.append(ComparedRow(name=name, cells=cells, differs=name not in _SAME_IN_MEANING and len(meanings) > 1))
    return sorted(rows, key=lambda row: not row.differs)


def election_rows(pictures: Sequence[RunPicture], partition: str) -> list[ComparedRow]:
    """Return the elections of a partition after time 0, the first of each run beside each other.

    Two elections mean the same if the leaders came by the same road and lost the same: ids of
    brokers differ from run to run.
    """
    elections = [_elections(picture, partition) for picture in pictures]
    rows = []
    for number, found in enumerate(zip_longest(*elections), 1):
        meanings = {_meaning(one) for one in found}
        cells = tuple(
            "-" if one is None else _cell(one, picture.zero_ns) for one, picture in zip(found, pictures, strict=True)
        )
        rows.append(ComparedRow(name=f"election {number}", cells=cells, differs=len(meanings) > 1))
    return rows


def sentences_of(runs: Sequence[JudgedRun], pictures: Sequence[RunPicture], partition: str | None) -> list[str]:
    """Return what differs between the first run and each other one, a sentence each."""
    found = []
    scenarios = dict.fromkeys(run.manifest.scenario or "-" for run in runs)
    if len(scenarios) > 1:
        found.append(
            f"The runs are of different scenarios ({', '.join(scenarios)}), so a difference need not come from the "
            "release."
        )
    for other in range(1, len(runs)):
        found += _sentences(runs, pictures, partition, other)
    return found or ["Nothing differs but times."]


def _sentences(
    runs: Sequence[JudgedRun], pictures: Sequence[RunPicture], partition: str | None, other: int
) -> list[str]:
    names = [_name(runs, at) for at in (0, other)]
    lost = [sum(loss.count for loss in runs[at].verdict.losses) for at in (0, other)]
    found = []
    if lost[0] != lost[1]:
        counts = [
            f"{name} lost {plural(count, 'record') if count else 'no record'}"
            for name, count in zip(names, lost, strict=True)
        ]
        found.append(f"{counts[0][0].upper()}{counts[0][1:]}; {counts[1]}.")
    if partition is not None:
        for one, two in zip_longest(_elections(pictures[0], partition), _elections(pictures[other], partition)):
            if _meaning(one) != _meaning(two):
                first, second = _clause(names[0], one), _clause(names[1], two)
                found.append(f"{second[0].upper()}{second[1:]}, where {first} ({partition}).")
                break
    if runs[0].verdict.outcome != runs[other].verdict.outcome:
        found.append(
            f"The first run is {runs[0].verdict.outcome}, and that on {names[1]} is {runs[other].verdict.outcome}."
        )
    return found


def _name(runs: Sequence[JudgedRun], at: int) -> str:
    """Return the release of a run, or its number where releases repeat."""
    targets = [run.target for run in runs]
    return f"Kafka {targets[at]}" if targets.count(targets[at]) == 1 else f"run {at + 1} (Kafka {targets[at]})"


def _meaning(election: ElectionMark | None) -> tuple[str, str | None] | None:
    """Return what an election means: the road of its leader, and the cause of what it lost."""
    if election is None:
        return None
    return election.road, election.blame.cause if election.blame is not None else None


def _clause(name: str, election: ElectionMark | None) -> str:
    if election is None:
        return f"{name} elected nobody"
    lost = f", which lost {_lost(election)}" if election.blame is not None and election.blame.lost else ""
    return f"{name} elected broker {election.leader} {ROAD_TEXT[election.road]}{lost}"


def _cell(election: ElectionMark, zero_ns: int) -> str:
    blame = election.blame
    lost = ""
    if blame is not None:
        what = f"{_lost(election)} lost" if blame.lost else "the HW went back"
        lost = f"; {'guilty, ' if blame.is_guilty else ''}{what}"
    return f"broker {election.leader} {ROAD_TEXT[election.road]}, {offset_s(election.at_ns, zero_ns)}{lost}"


def _lost(election: ElectionMark) -> str:
    blame = election.blame
    if blame is None:
        return "nothing"
    return plural(blame.lost, "record" if blame.is_guilty else "uncommitted record")


def _elections(picture: RunPicture, partition: str) -> list[ElectionMark]:
    found = next((one for one in picture.partitions if one.name == partition), None)
    return [one for one in found.elections if one.at_ns >= picture.zero_ns] if found is not None else []
