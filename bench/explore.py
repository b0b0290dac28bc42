"""Measures the explorer's speed and memory: `python -m bench.explore`.

Run it from the root of a checkout. One search in one process ends at a million distinct states: RF 3, min ISR 2,
four records, one power loss and two clean stops. Time is CPU time of this process, because the search uses one
core. Targets: 50,000 distinct states a second, and a million states in less than 2 GiB; exit code 1 if one is
missed. A search of fewer states (`--states`) needs other targets, because the start of the search counts too.
"""

from __future__ import annotations

import argparse
import resource
import sys
import time

from analysis.spec.explore.properties import PROPERTIES
from analysis.spec.explore.question import machine_for
from analysis.spec.explore.search import BYTES_PER_STATE, search
from analysis.spec.model.bounds import Bounds
from bench.measured_on import measured_on

TARGET_STATES_PER_S = 50_000
TARGET_BYTES = 2 << 30
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
    return 0 if met else 1


def _peak_bytes() -> int:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024


if __name__ == "__main__":
    sys.exit(main())
