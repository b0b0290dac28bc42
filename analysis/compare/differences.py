"""Says in words what differs between recorded runs."""

from __future__ import annotations

from collections.abc import Container, Sequence
from itertools import zip_longest

import msgspec

from analysis.report.picture.model import ElectionMark, RunPicture
from analysis.report.summary import JudgedRun, lines_side_by_side
from analysis.sentences.elections import ROAD_TEXT
from analysis.sentences.words import count_lost, offset_s
from ebbtide.record.outcomes import outcome_word
from ebbtide.record.verdict import Verdict
from ebbtide.shown_text import plural

_SAME_IN_MEANING = ("record", "took", "longest phases", "without leader", "without ack")
"""Lines of the summary that differ from run to run without meaning anything: names and times."""
_DIFFER_BY_PRESENCE = ("guilty election", "elected from ELR")
"""Lines whose ids of brokers mean nothing, but it means something that one run has none."""


class ComparedRow(msgspec.Struct, frozen=True, kw_only=True):
    """One line of the comparison: a cell for each run; `differs` if they do not mean the same."""

    name: str
    cells: tuple[str, ...]
    differs: bool


def rows_of(runs: Sequence[JudgedRun], *, without: Container[int] = ()) -> list[ComparedRow]:
    """Return the figures of the runs side by side, those that differ first.

    The runs at the places `without` are shown, and differ from none: they have nothing to compare.
    """
    columns = lines_side_by_side(runs)
    compared = [at for at in range(len(runs)) if at not in without]
    rows = []
    for at, (name, _) in enumerate(columns[0]):
        cells = tuple(column[at][1] for column in columns)
        known = [cells[at] for at in compared]
        meanings = {cell == "-" for cell in known} if name in _DIFFER_BY_PRESENCE else set(known)
        rows.append(ComparedRow(name=name, cells=cells, differs=name not in _SAME_IN_MEANING and len(meanings) > 1))
    return sorted(rows, key=lambda row: not row.differs)


def election_rows(pictures: Sequence[RunPicture | None], partition: str) -> list[ComparedRow]:
    """Return the elections of a partition after time 0, the first of each run beside each other.

    A run without a picture has nothing to compare, and an empty cell.

    Two elections mean the same if the leaders came by the same road and lost the same: ids of
    brokers differ from run to run.
    """
    elections = [_elections(picture, partition) if picture is not None else [] for picture in pictures]
    rows = []
    for number, found in enumerate(zip_longest(*elections), 1):
        meanings = {_meaning(one) for one, picture in zip(found, pictures, strict=True) if picture is not None}
        cells = tuple(
            "-" if one is None or picture is None else _cell(one, picture.zero_ns)
            for one, picture in zip(found, pictures, strict=True)
        )
        rows.append(ComparedRow(name=f"election {number}", cells=cells, differs=len(meanings) > 1))
    return rows


def failures_of(runs: Sequence[JudgedRun], pictures: Sequence[RunPicture | None]) -> list[str]:
    """Return which runs did not complete, and why, a sentence each."""
    found = []
    for at, (run, picture) in enumerate(zip(runs, pictures, strict=True)):
        if run.manifest.status == "complete":
            continue
        name, verb = _name(runs, at), "failed" if run.manifest.status == "failed" else "was interrupted"
        if picture is None:
            said = f"{name} {verb} before it sent a record, so nothing can be compared for it"
        else:
            said = f"{name} {verb}, so a difference may come from that"
        found.append(f"{said[0].upper()}{said[1:]}: {why_incomplete_of(run).rstrip('.')}.")
    return found


def why_incomplete_of(run: JudgedRun) -> str:
    """Return why a run did not complete, also where its record does not say it."""
    return run.manifest.why_incomplete or "its record gives no reason"


def sentences_of(
    runs: Sequence[JudgedRun],
    pictures: Sequence[RunPicture | None],
    partition: str | None,
    *,
    failures: Sequence[str] = (),
) -> list[str]:
    """Return what differs between the first run and each other one, a sentence each.

    The `failures` of the runs come first. A run without a picture is compared with none.
    """
    found = [*failures]
    scenarios = dict.fromkeys(run.manifest.scenario or "-" for run in runs)
    if len(scenarios) > 1:
        found.append(
            f"The runs are of different scenarios ({', '.join(scenarios)}), so a difference need not come from the "
            "release."
        )
    drawn = [(at, picture) for at, picture in enumerate(pictures) if picture is not None]
    for other in drawn[1:]:
        found += _sentences(runs, drawn[0], other, partition)
    return found or ["Nothing differs but times."]


def _sentences(
    runs: Sequence[JudgedRun], first: tuple[int, RunPicture], other: tuple[int, RunPicture], partition: str | None
) -> list[str]:
    names = [_name(runs, at) for at, _ in (first, other)]
    verdicts = [runs[at].verdict for at, _ in (first, other)]
    found = []
    counts = [_lost_clause(name, verdict) for name, verdict in zip(names, verdicts, strict=True)]
    if _lost_count(verdicts[0]) != _lost_count(verdicts[1]):
        found.append(f"{counts[0][0].upper()}{counts[0][1:]}; {counts[1]}.")
    if partition is not None:
        for one, two in zip_longest(_elections(first[1], partition), _elections(other[1], partition)):
            if _meaning(one) != _meaning(two):
                clauses = _clause(names[0], one), _clause(names[1], two)
                found.append(f"{clauses[1][0].upper()}{clauses[1][1:]}, where {clauses[0]} ({partition}).")
                break
    words = [outcome_word(verdict) for verdict in verdicts]
    if words[0] != words[1]:
        found.append(f"The outcome of {names[0]} is {words[0]}, that of {names[1]} is {words[1]}.")
    return found


def _lost_count(verdict: Verdict) -> int | None:
    """Return how many records a run lost; None if that is not known."""
    return None if count_lost(verdict) is None else sum(loss.count for loss in verdict.losses)


def _lost_clause(name: str, verdict: Verdict) -> str:
    count = _lost_count(verdict)
    if count is None:
        return f"it is not known what {name} lost"
    return f"{name} lost {plural(count, 'record') if count else 'no record'}"


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
