"""Measures the reconciliation of large records, beside a mere read of them.

Run `python -m bench.reconcile [EVENTS ...]`. Both run in processes of their own and take turns, so that a slow host
slows both.

- Ebbtide's wall clock and CPU time start after its session. CPU time says more on a host that does other work.
- Memory is the peak of the resident sets of all its processes together.
- *read once* only reads the columns that the checks need, once, with pyarrow. Nothing can be faster.

Ebbtide must find all planted items and no others, and may not fail. Otherwise the exit code is 1, and stderr says why.
The growth of time with events comes last.
"""

from __future__ import annotations

import argparse
import hashlib
import math
import shutil
import sys
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import NoReturn

import msgspec

from bench import made_record
from bench.measured_on import measured_on
from bench.reconcile_engines import ENGINES, EngineRun, measure, run_engine
from bench.reconcile_table import GROWTH_HEAD, HEAD, Size, growths
from ebbtide.signals import defer_signals, unwind_on_signals

SIZES = (200_000, 2_000_000, 20_000_000)
_MADE = "made.json"
"""In a record that was made here: how many rows it has, and by which maker."""


class RecordOrigin(msgspec.Struct, frozen=True, kw_only=True):
    """What made a record, and of how many rows."""

    rows: int
    maker: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Maker:
    """The function that makes a record of so many events, and its digest.

    The function makes it in a folder and returns its rows. The digest distinguishes it from other
    makers. `planted` are the items that each record has, by kind.
    """

    make: Callable[[Path, int], int]
    digest: str
    planted: Mapping[str, int]


def main(argv: Sequence[str] | None = None) -> int:
    """Measure, and print the tables as Markdown."""
    parser = argparse.ArgumentParser(
        prog="python -m bench.reconcile", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("events", nargs="*", type=events, help="sizes, by default 2e5 2e6 2e7; 2e8 on request")
    parser.add_argument("--repeat", type=int, default=1, help="runs of each engine (default 1)")
    parser.add_argument("--engines", type=engines, default=ENGINES, help=f"by default {','.join(ENGINES)}")
    parser.add_argument(
        "--folder",
        type=Path,
        help="where records are made, kept, and taken from again as record-EVENTS (default: a temporary folder)",
    )
    parser.add_argument("--engine", choices=ENGINES, help=argparse.SUPPRESS)
    parser.add_argument("--record", type=Path, help=argparse.SUPPRESS)
    args = parser.parse_args(argv)
    with unwind_on_signals():
        if args.engine:
            print(msgspec.json.encode(run_engine(args.engine, args.record)).decode())
            return 0
        try:
            return _compare(args)
        except FileExistsError as error:
            parser.error(str(error))


def events(text: str) -> int:
    """A number of events as typed, such as 2e5."""
    try:
        number = float(text)
    except ValueError:
        number = math.nan
    if not 1 <= number < math.inf:
        raise argparse.ArgumentTypeError(f"{text!r} is no number of events, such as 2e5")
    return int(number)


def engines(text: str) -> tuple[str, ...]:
    """Engines as typed, in the order in which they run."""
    named = [name.strip() for name in text.split(",")]
    unknown = [name for name in named if name not in ENGINES]
    if unknown:
        raise argparse.ArgumentTypeError(f"no engine is called {unknown[0]!r}: there are {', '.join(ENGINES)}")
    return tuple(engine for engine in ENGINES if engine in named)


def _compare(args: argparse.Namespace) -> int:
    sizes: list[Size] = []
    wrong = False
    made_by = maker()
    print(f"{measured_on()}\n\n{HEAD}")
    for asked in dict.fromkeys(args.events or SIZES):
        with _temporary(args.folder) as scratch:
            record, rows = kept_record(args.folder or scratch, asked, scratch, made_by)
            size = _measure_size(args, record, scratch, asked, rows)
        print("\n".join(size.table()), flush=True)
        sizes.append(size)
        mistakes = size.mistakes(made_by.planted)
        for mistake in mistakes:
            print(f"error: {mistake}", file=sys.stderr)
        wrong |= bool(mistakes or size.failed_engines())
    if grown := growths(sizes):
        print("\n".join([GROWTH_HEAD, *(one.row() for one in grown)]))
    return int(wrong)


def _measure_size(args: argparse.Namespace, record: Path, scratch: Path, asked: int, rows: int) -> Size:
    runs: dict[str, list[EngineRun]] = {engine: [] for engine in args.engines}
    for _ in range(args.repeat):
        for engine in args.engines:
            runs[engine].append(measure(engine_command(engine, record), scratch))
    return Size(asked=asked, rows=rows, runs=runs)


def engine_command(engine: str, record: Path) -> list[str]:
    """What runs an engine once: this module, as a process of its own."""
    return [sys.executable, "-m", "bench.reconcile", "--engine", engine, "--record", str(record)]


def kept_record(folder: Path, asked: int, scratch: Path, maker: Maker) -> tuple[Path, int]:
    """Return the record of so many events in the folder, and its number of rows.

    The record is made if it does not exist yet. It gets its name when it is whole: what an interrupted
    call began is never taken for a record. Raises `FileExistsError` when something else has the name, or
    what another maker made.
    """
    record = folder / f"record-{asked}"
    if not record.exists():
        new = scratch / "new" / record.name
        rows = maker.make(new, asked)
        (new / _MADE).write_bytes(msgspec.json.encode(RecordOrigin(rows=rows, maker=maker.digest)))
        new.rename(record)
    try:
        made = msgspec.json.decode((record / _MADE).read_bytes(), type=RecordOrigin)
    except (OSError, msgspec.DecodeError):
        made = None
    if made is None or made.maker != maker.digest:
        raise FileExistsError(f"{record} was not made by this bench/made_record.py: remove it, or name another folder")
    return record, made.rows


def maker() -> Maker:
    """Return the function that makes records, with its digest and what it plants."""
    text = Path(made_record.__file__).read_bytes()
    return Maker(make=made_record.make_record, digest=hashlib.sha256(text).hexdigest(), planted=made_record.ITEMS)


@contextmanager
def _temporary(folder: Path | None) -> Iterator[Path]:
    """Yield a folder in this one that is removed at the end.

    A second signal during the removal does not stop it.
    """
    if folder is not None:
        folder.mkdir(parents=True, exist_ok=True)
    path = Path(tempfile.mkdtemp(prefix="bench-", dir=folder)).absolute()
    try:
        yield path
    finally:
        with defer_signals():
            shutil.rmtree(path, ignore_errors=True)


def end_as_a_shell_tells(run: Callable[[], int]) -> NoReturn:
    """End this process with what `run` returns, or as Ctrl-C ends a process.

    There is no traceback.
    """
    try:
        sys.exit(run())
    except KeyboardInterrupt:
        sys.exit(130)


if __name__ == "__main__":
    end_as_a_shell_tells(main)
