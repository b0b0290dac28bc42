"""What the class archive saves: `python -m bench.cluster_start [ROUNDS]`, from the root of a checkout, as root.

Rounds alternate between a cluster of one controller and three brokers whose JVMs have the release's class
archive, and the same cluster without it. The time runs from the first process to the last broker unfenced.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
import time
from pathlib import Path
from statistics import median

import msgspec

from harness.ledger import Ledger
from harness.runtime.jvm import Installation, ensure_class_archive, installation_of
from harness.runtime.local import LocalRuntime
from harness.scenario.model import ClusterSpec

RELEASES = ("3.9.1", "4.3.1")


def start_s(installation: Installation, folder: Path) -> float:
    """Seconds until a fresh cluster is ready."""
    with Ledger.open(f"bench-{folder.name}", folder) as ledger:
        runtime = LocalRuntime(spec=ClusterSpec(), installation=installation, folder=folder, ledger=ledger)
        try:
            runtime.prepare()
            began = time.monotonic()
            runtime.start(tuple(runtime.nodes))
            runtime.wait_ready(tuple(runtime.nodes), 90)
            return time.monotonic() - began
        finally:
            runtime.close()


def main() -> int:
    """Measure, and print medians and their ratio."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("rounds", nargs="?", type=int, default=3)
    rounds = parser.parse_args().rounds
    print("Kafka   with archive   without   ratio")
    for release in RELEASES:
        installation = installation_of(release)
        ensure_class_archive(installation)
        with tempfile.TemporaryDirectory(prefix="ebbtide-start-") as folder:
            # No archive lies in an empty folder.
            without = msgspec.structs.replace(installation, folder=Path(folder))
            times: dict[bool, list[float]] = {True: [], False: []}
            for number in range(rounds):
                for archived in (True, False):
                    kind = "archive" if archived else "bare"
                    place = Path(folder) / f"{kind}-{number}"
                    place.mkdir()
                    times[archived].append(start_s(installation if archived else without, place))
        fast, slow = median(times[True]), median(times[False])
        print(f"{release:<7} {fast:>8.2f} s   {slow:>6.2f} s   {fast / slow:>5.2f}", flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
