"""Judges records as a clock that was set would have left them: none may be contradicted that was not.

    .venv/bin/python -m bench.clock_steps RECORD... --by=-3,3
    .venv/bin/python -m bench.clock_steps RECORD... --watched

Each record is copied for the middle of its run and for the moment after each step, with the clock set by an hour, by
three seconds and by one, back and forward. Without `--watched` every time of a copy is shifted after that moment. With
it, only Kafka's times are, and the copy has what the recorder would have seen of the step. Exit code 1 if a copy is
contradicted and its record is not, or if more than a tenth of the watched copies became inconclusive.
"""

from __future__ import annotations

import argparse
import contextlib
import sys
import tempfile
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

from analysis.judging.many_records import judge_many
from bench.measured_on import measured_on
from bench.shifted_records import BY_S, SECOND_NS, copy_of, moments, shift_all, shift_watched
from ebbtide.record.manifest import is_record, records_of
from ebbtide.record.verdict import Outcome, Verdict
from harness.cli.analyze_stdin import JudgingSession

INCONCLUSIVE_SHARE_MAX = 0.1
_TOGETHER = 100
"""So many copies are judged in the same Spark jobs, and are on disk at once."""


class Shift(NamedTuple):
    """A copy of a record: the clock is set by `by_s` at `at_ns`; 0: not at all."""

    record: Path
    moment: str
    at_ns: int
    by_s: int


def shifts_of(records: Sequence[Path], by_s: Sequence[int], moments_max: int | None) -> Iterator[Shift]:
    """Yield each record as it is, and then as set clocks would have left it."""
    for record in records:
        yield Shift(record, "never", 0, 0)
        for moment, at_ns in list(moments(record))[:moments_max]:
            for by in by_s:
                yield Shift(record, moment, at_ns, by)


def judged(shifts: Sequence[Shift], *, watched: bool) -> Iterator[tuple[Shift, Outcome | None]]:
    """Yield each copy with its outcome; None: it could not be judged."""
    shift = shift_watched if watched else shift_all
    with contextlib.closing(JudgingSession(many=True)) as session:
        for first in range(0, len(shifts), _TOGETHER):
            with tempfile.TemporaryDirectory() as folder:
                made = {}
                for number, one in enumerate(shifts[first : first + _TOGETHER]):
                    copy = copy_of(one.record, Path(folder) / str(number))
                    if watched or one.by_s:
                        shift(copy, one.at_ns, one.by_s * SECOND_NS)
                    made[copy] = one
                for copy, verdict in judge_many(list(made), session.started):
                    yield made[copy], verdict.outcome if isinstance(verdict, Verdict) else None


def main() -> int:
    """Judge the copies and print what became of them."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("records", nargs="+", type=Path, metavar="RECORD", help="a record, or a folder of records")
    parser.add_argument("--watched", action="store_true", help="let the recorder see the step")
    parser.add_argument("--by", default=",".join(map(str, BY_S)), metavar="SECONDS", help="how far the clock is set")
    parser.add_argument("--moments", type=int, help="how many moments of each run; all by default")
    args = parser.parse_args()
    records = [record for path in args.records for record in ([path] if is_record(path) else records_of(path))]
    by_s = [int(one) for one in args.by.split(",")]
    plain: dict[Path, Outcome | None] = {}
    became: Counter[tuple[int, str]] = Counter()
    copies: Counter[int] = Counter()
    for one, outcome in judged(list(shifts_of(records, by_s, args.moments)), watched=args.watched):
        if one.by_s == 0:
            plain[one.record] = outcome
            continue
        copies[one.by_s] += 1
        if outcome != plain[one.record]:
            became[one.by_s, outcome or "not judged"] += 1
            print(f"{one.record.name}, {one.moment}, {one.by_s:+} s: {plain[one.record]} became {outcome}")
    print(f"{measured_on()}: {len(records)} records, {sum(copies.values())} copies")
    for by in by_s:
        counts = ", ".join(f"{count} became {outcome}" for (of, outcome), count in sorted(became.items()) if of == by)
        print(f"{by:+6} s: {copies[by]} copies, {counts or 'all with the outcome of their records'}")
    accused = sum(count for (_, outcome), count in became.items() if outcome in ("contradicted", "not judged"))
    unsure = sum(count for (_, outcome), count in became.items() if outcome == "inconclusive")
    missed = args.watched and unsure > INCONCLUSIVE_SHARE_MAX * sum(copies.values())
    return int(accused > 0 or missed)


if __name__ == "__main__":
    sys.exit(main())
