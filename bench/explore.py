"""Measures the explorer's speed and memory: `python -m bench.explore`.

Run it from the root of a checkout. One search in one process ends at a million distinct states: RF 3, min ISR 2,
four records, one power loss and two clean stops. Time is CPU time of this process, because the search uses one
core. Targets: 50,000 distinct states a second, and a million states in less than 2 GiB; exit code 1 if one is
missed. A search of fewer states (`--states`) needs other targets, because the start of the search counts too.

With `--jobs N` each search runs twice more, in N processes. The bench prints how much sooner the first of them ends on
the clock. Of the second it prints the memory of all processes together: the proportional set size of each, and the
files that they share. It fails if the results differ.
"""

from __future__ import annotations

import argparse
import contextlib
import multiprocessing
import os
import resource
import sys
import time
from multiprocessing.connection import Connection
from pathlib import Path

import msgspec
import psutil

from analysis.spec.explore.properties import PROPERTIES
from analysis.spec.explore.question import machine_for
from analysis.spec.explore.search import BYTES_PER_STATE, SearchResult, search
from analysis.spec.explore.side_by_side import search_side_by_side
from analysis.spec.model.bounds import Bounds
from bench.measured_on import measured_on

TARGET_STATES_PER_S = 50_000
TARGET_BYTES = 2 << 30
_SHARED = "/memfd:"
"""How the paths of files in memory begin."""
QUESTIONS = {
    "RF 3, min ISR 2": Bounds(records=4, power_losses=1, stops=2),
    "RF 5, min ISR 3": Bounds(rf=5, min_isr=3, records=2, power_losses=2),
}


def main() -> int:
    """Measure and print; returns 1 if the search misses a target."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--states", type=int, default=1_000_000, metavar="N", help="where each search ends")
    parser.add_argument("--min-states-per-s", type=float, default=TARGET_STATES_PER_S, metavar="RATE", help="target")
    parser.add_argument("--max-bytes-per-state", type=float, default=BYTES_PER_STATE, metavar="BYTES", help="target")
    parser.add_argument("--jobs", type=int, default=1, metavar="N", help="search again in N processes")
    args = parser.parse_args()
    states = args.states
    met = True
    print(measured_on())
    for number, (name, bounds) in enumerate(QUESTIONS.items()):
        before = _peak_bytes()
        machine = machine_for("elr_43", bounds, PROPERTIES["committed"])
        began = time.process_time()
        found = search(machine, max_states=states)
        took_s = time.process_time() - began
        rate = found.states / took_s
        print(f"{name}: {found.states:,} states, {found.moves:,} moves, depth {found.depth}, ended by {found.ending}")
        print(f"  {rate:,.0f} distinct states/s, {found.moves / took_s:,.0f} moves/s, {took_s:.1f} s of CPU time")
        if number == 0:
            grown = _peak_bytes() - before
            print(f"  {grown / found.states:.0f} bytes a state (assumed: {BYTES_PER_STATE}), peak {grown >> 20:,} MiB")
            met = rate >= args.min_states_per_s and grown <= TARGET_BYTES
            met &= grown / found.states <= args.max_bytes_per_state
            targets = f"{args.min_states_per_s:,.0f} states/s or more, {args.max_bytes_per_state:.0f} bytes a state"
            print(f"  targets: {targets} and {TARGET_BYTES >> 20:,} MiB at most: {'met' if met else 'MISSED'}")
        if args.jobs > 1:
            met &= _search_again(bounds, found, states, args.jobs)
    return 0 if met else 1


def _search_again(bounds: Bounds, found: SearchResult, states: int, jobs: int) -> bool:
    """Search in `jobs` processes, and return whether the result is `found`."""
    again = search_side_by_side(machine_for("elr_43", bounds, PROPERTIES["committed"]), jobs, max_states=states)
    sooner = found.elapsed_s / again.elapsed_s
    print(f"  {jobs} processes: {again.elapsed_s:.1f} s where one took {found.elapsed_s:.1f} s, {sooner:.2f} times")
    watched, peak = _watched_search(bounds, states, jobs)
    same = all(msgspec.structs.replace(one, elapsed_s=found.elapsed_s) == found for one in (again, watched))
    print(f"  all processes together: {peak >> 20:,} MiB; {'the same result' if same else 'ANOTHER RESULT'}")
    return same


def _watched_search(bounds: Bounds, states: int, jobs: int) -> tuple[SearchResult, int]:
    """Search once more beside a process that watches the memory; return the result and the peak in bytes.

    That process takes time from a search that has every core in use, so this search is not timed.
    """
    machine = machine_for("elr_43", bounds, PROPERTIES["committed"])
    ours, theirs = multiprocessing.Pipe()
    # A process, because a search forks and may have no thread beside it.
    watcher = multiprocessing.Process(target=_watch, args=(os.getpid(), theirs), daemon=True)
    watcher.start()
    watched = search_side_by_side(machine, jobs, max_states=states)
    ours.send(None)
    peak = ours.recv()
    watcher.join()
    return watched, peak


def _watch(searcher: int, end: Connection) -> None:
    """Send the peak of what the searching processes have in memory, once something arrives."""
    peak = 0
    while not end.poll(0.5):
        total = 0
        with contextlib.suppress(psutil.Error, OSError):
            for one in (psutil.Process(searcher), *psutil.Process(searcher).children()):
                total += _own_bytes(one.pid) if one.pid != os.getpid() else 0
            total += _shared_bytes(searcher)
        peak = max(peak, total)
    end.send(peak)


def _own_bytes(pid: int) -> int:
    """Return the proportional set size of a process, without the files in memory that the processes share.

    The sums of the kernel take half the time of the list of all mappings, and the search has every core in use.
    """
    rows = (line.split() for line in Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines()[1:])
    sizes = {row[0]: int(row[1]) * 1024 for row in rows}
    return sizes["Pss_Anon:"] + sizes["Pss_File:"]


def _shared_bytes(searcher: int) -> int:
    """Return what the files take that the processes share, whether or not a process maps them."""
    total = 0
    for descriptor in Path(f"/proc/{searcher}/fd").iterdir():
        with contextlib.suppress(FileNotFoundError):
            if str(descriptor.readlink()).startswith(_SHARED):
                total += descriptor.stat().st_blocks * 512
    return total


def _peak_bytes() -> int:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024


if __name__ == "__main__":
    sys.exit(main())
