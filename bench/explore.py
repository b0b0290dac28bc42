"""How fast the explorer is and what a state costs: `python -m bench.explore`, from the root of a checkout.

One search in one process, ended at a million distinct states: RF 3, min ISR 2, four records, one power loss and
two clean stops. Time is this process's CPU time, since the search uses one core. Targets: 50,000 distinct states a
second, a million states in less than 2 GiB.
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

TARGET_STATES_PER_S = 50_000
TARGET_BYTES = 2 << 30
QUESTIONS = {
    "RF 3, min ISR 2": Bounds(records=4, power_losses=1, stops=2),
    "RF 5, min ISR 3": Bounds(rf=5, min_isr=3, records=2, power_losses=2),
}


def main() -> int:
    """Measure and print; exit code 1 where the first question misses a target."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--states", type=int, default=1_000_000, metavar="N", help="where each search ends")
    states = parser.parse_args().states
    met = True
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
            met = rate >= TARGET_STATES_PER_S and grown <= TARGET_BYTES and grown / found.states <= BYTES_PER_STATE
    return 0 if met else 1


def _peak_bytes() -> int:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024


if __name__ == "__main__":
    sys.exit(main())
