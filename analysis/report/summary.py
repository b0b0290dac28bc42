"""Shows runs side by side as text, one column a run."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import zip_longest
from pathlib import PurePath

import msgspec

from analysis.record.record import Record
from analysis.sentences import words
from analysis.sentences.elections import is_broken_promise
from analysis.sentences.protocol import as_one_line, own_rules, protocol_of
from ebbtide.folding import column_widths, fold_words
from ebbtide.record.manifest import Manifest
from ebbtide.record.outages import leaderless_text, oldest_text, outage_text
from ebbtide.record.outcomes import outcome_word
from ebbtide.record.verdict import Loss, RecordedElection, Verdict

_LOST = "lost, committed"
_CAUSES_MAX = 3
_GAP = "  "
_CELL_WIDTH_MIN = 22
_HEAD, _RECORD = "Kafka", "record"


class JudgedRun(msgspec.Struct, frozen=True, kw_only=True):
    """A judged run: its record, its figures, its verdict, its elections from the ELR.

    `sends`: how many records were sent, acked, failed and unknown, as they are shown. `target`: the
    release, and the feature levels that were asked for. `protocol`: what the specification says of
    the run (`analysis.sentences.protocol`).
    """

    record: str
    manifest: Manifest
    verdict: Verdict
    sends: tuple[tuple[str, str], ...]
    target: str
    protocol: str
    from_elr: tuple[RecordedElection, ...] = ()


def judged_run(record: Record, verdict: Verdict) -> JudgedRun:
    """Return a judged record, with what its manifest and timeline add to the verdict."""
    from_elr = tuple(one.as_recorded for one in record.elections if one.road == "elr")
    return JudgedRun(
        record=str(record),
        manifest=record.manifest,
        verdict=verdict,
        sends=words.send_counts(record, verdict),
        target=words.target(record) or "unknown",
        protocol=protocol_of(record, verdict),
        from_elr=from_elr,
    )


def summary_lines(run: JudgedRun) -> list[tuple[str, str]]:
    """Return the lines of one run, in the order in which they are shown."""
    verdict = run.verdict
    # An unexplained loss is the worst, else the largest committed one.
    worst = max(
        verdict.losses, key=lambda loss: (loss.cause == "unexplained", loss.committed, loss.count), default=None
    )
    return [
        ("scenario", run.manifest.scenario or "-"),
        *run.sends,
        ("acks=0, lost", words.count_lost_acks_0(verdict)),
        (_LOST, words.count_lost_text(verdict, committed=True)),
        ("lost, not committed", words.count_lost_text(verdict, committed=False)),
        ("your producers", verdict.own_figure),
        ("cause", "\n".join(_causes(verdict)) or "-"),
        ("guilty election", _guilty_election(worst) + _and_more(_count_guilty_elections(verdict))),
        ("elected from ELR", "\n".join(map(words.election, run.from_elr)) or "-"),
        ("HW went back", _hw_regression(verdict)),
        ("oldest lost", oldest_text(verdict)),
        ("write-back", _write_back(run.manifest)),
        ("without leader", leaderless_text(verdict)),
        ("without ack", outage_text(verdict, "no_ack")),
        ("protocol", run.protocol),
        ("judged by", verdict.judged_by(run.manifest.kafka_name)),
        ("your rules", own_rules(verdict)),
        ("took", words.duration(run.manifest.start_ns, run.manifest.end_ns)),
        ("longest phases", words.longest_phases(run.manifest)),
        ("outcome", outcome_word(verdict)),
        (_RECORD, run.record),
    ]


def lines_side_by_side(runs: Sequence[JudgedRun]) -> list[list[tuple[str, str]]]:
    """Return the lines of each run, without those that are empty in every run."""
    columns = [summary_lines(run) for run in runs]
    shown = {name for column in columns for name, cell in column if cell}
    return [[line for line in column if line[0] in shown] for column in columns]


def summary_text(runs: Sequence[JudgedRun], width: int) -> str:
    """Return the runs as aligned text of at most `width` columns.

    Many runs are several tables below each other. One run may have a longer line: the path of its record. The text of
    several names only the folders of the records if their paths do not fit into its cells.
    """
    many = max(1, (width - _name_width(runs)) // (_CELL_WIDTH_MIN + len(_GAP)))
    return "\n\n".join(_as_text(runs[at : at + many], width) for at in range(0, len(runs), many))


def _as_text(runs: Sequence[JudgedRun], width: int) -> str:
    columns = [[(name, as_one_line(shown)) for name, shown in column] for column in _columns(runs)]
    room = width - _name_width(runs) - len(_GAP) * len(runs)
    cells = _folded(columns, room, with_record=len(runs) == 1)
    lines = [line for name in cells[0] for line in zip_longest([name], *(each[name] for each in cells), fillvalue="")]
    widths = [max(len(line[at]) for line in lines) for at in range(len(lines[0]))]
    return "\n".join(
        _GAP.join(cell.ljust(width) for cell, width in zip(line, widths, strict=True)).rstrip() for line in lines
    )


def _name_width(runs: Sequence[JudgedRun]) -> int:
    return max((len(name) for run in runs for name, _ in summary_lines(run)), default=0)


def _columns(runs: Sequence[JudgedRun]) -> list[list[tuple[str, str]]]:
    """Return the lines of each run, below its release."""
    return [[(_HEAD, run.target), *lines] for run, lines in zip(runs, lines_side_by_side(runs), strict=True)]


def _folded(
    columns: Sequence[Sequence[tuple[str, str]]], room: int, *, with_record: bool = False
) -> list[dict[str, list[str]]]:
    """Return the lines of each cell of each column by row, folded so that all columns fit into `room`.

    The path of a record is never folded. If one does not fit, the row has the names of the records' folders, which are
    folded, unless `with_record`.
    """
    wanted = [
        max(len(line) for name, shown in column for line in (_parts(shown) if name == _RECORD else shown.split("\n")))
        for column in columns
    ]
    widths = column_widths(wanted, room)
    wider = [max(width, len(dict(column)[_RECORD])) for width, column in zip(widths, columns, strict=True)]
    if sum(wider) <= room:
        with_record = True
    return [
        {
            name: [shown]
            if name == _RECORD and with_record
            else fold_words(PurePath(shown).name if name == _RECORD else shown, width)
            for name, shown in column
        }
        for column, width in zip(columns, widths, strict=True)
    ]


def _parts(record: str) -> list[str]:
    """Return the parts of the name of a record's folder; it is folded between these."""
    return [f"{part}-" for part in PurePath(record).name.split("-")]


def _guilty_election(worst: Loss | None) -> str:
    """Return the election that is guilty of the worst loss.

    An election that lost only what nobody promised to keep is not guilty.
    """
    if worst is None or not is_broken_promise(worst):
        return "-"
    return words.election(worst.election)


def _count_guilty_elections(verdict: Verdict) -> int:
    """Return how many elections are guilty of a loss."""
    return len(
        {
            (one.topic, one.partition, one.election)
            for one in verdict.losses
            if one.election is not None and is_broken_promise(one)
        }
    )


def _and_more(count: int) -> str:
    """Return what to add where one of `count` is shown."""
    return f"\nand {count - 1:,} more" if count > 1 else ""


def _causes(verdict: Verdict) -> list[str]:
    counts: dict[str, int] = {}
    for loss in verdict.losses:
        counts[loss.cause] = counts.get(loss.cause, 0) + loss.count
    ordered = sorted(counts.items(), key=lambda item: -item[1])
    more = len(ordered) - _CAUSES_MAX
    shown = [cause if len(ordered) == 1 else f"{cause} ({count:,})" for cause, count in ordered[:_CAUSES_MAX]]
    return shown + ([f"and {more} more"] if more > 0 else [])


def _write_back(manifest: Manifest) -> str:
    """Return who decided when dirty pages were written, and the file system of the nodes."""
    kinds = {"held": "held", "kernel": "the kernel's own"}
    return ", ".join(filter(None, (kinds.get(manifest.write_back or ""), manifest.file_system))) or words.UNKNOWN


def _hw_regression(verdict: Verdict) -> str:
    """Return the deepest HW regression, and how many others there were."""
    deepest = max(verdict.regressions, key=lambda one: one.from_ - one.to, default=None)
    if deepest is None:
        return "no" if words.count_regressions(verdict) == "0" else words.UNKNOWN
    fall = f"from {deepest.from_:,} to {deepest.to:,} ({deepest.topic}-{deepest.partition})"
    return fall + _and_more(len(verdict.regressions))
