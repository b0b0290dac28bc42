"""Compares both runtimes: `python -m bench.runtimes [ROUNDS]`.

Run it from a checkout, as root, with Docker. Rounds alternate between the local and the docker runtime: one
Last Replica Standing each on 3.9.1 and 4.3.1, judged. Start-up is from nothing to the last broker unfenced;
the run ends with its record, before the judging.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import tempfile
from pathlib import Path
from statistics import median

from ebbtide.record.files import RecordFolder
from ebbtide.record.manifest import read_manifest
from ebbtide.record.verdict import read_verdict

RELEASES = ("3.9.1", "4.3.1")
RUNTIMES = ("local", "docker")


def main() -> int:
    """Measure, and print medians; exit code 1 when a run did not end as predicted."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("rounds", nargs="?", type=int, default=3)
    rounds = parser.parse_args().rounds
    starts: dict[tuple[str, str], list[float]] = {(name, kafka): [] for name in RUNTIMES for kafka in RELEASES}
    wholes: dict[tuple[str, str], list[float]] = {key: [] for key in starts}
    wrong = 0
    with tempfile.TemporaryDirectory(prefix="ebbtide-runtimes-") as folder:
        for number in range(rounds):
            for name in RUNTIMES:
                runs = Path(folder) / f"{name}-{number}"
                command = [sys.executable, "-m", "ebbtide", "run", "last-replica-standing"]
                command += ["--kafka", ",".join(RELEASES), "--runtime", name, "--runs", str(runs)]
                done = subprocess.run(command, capture_output=True, text=True, check=False)
                if done.returncode != 0:
                    wrong += 1
                    print(f"{name}: exit code {done.returncode}: {done.stderr.strip()}", file=sys.stderr)
                for record in sorted(runs.iterdir()) if runs.is_dir() else ():
                    manifest, verdict = read_manifest(RecordFolder(record)), read_verdict(RecordFolder(record))
                    assert manifest.runtime == name
                    timings_s = manifest.timings_s
                    starts[name, manifest.kafka].append(timings_s["prepare"] + timings_s["start cluster"])
                    wholes[name, manifest.kafka].append(sum(timings_s.values()))
                    causes = ", ".join(loss.cause for loss in verdict.losses) if verdict else ""
                    print(
                        f"{name} {manifest.kafka}: {verdict.outcome if verdict else 'no verdict'} {causes}", flush=True
                    )
    print(f"{'':<16}" + "".join(f"{kafka:>12} start {'run':>8}" for kafka in RELEASES))
    for name in RUNTIMES:
        figures = (f"{_median(starts[name, k]):>15} s {_median(wholes[name, k]):>8} s" for k in RELEASES)
        print(f"{name:<16}" + "".join(figures))
    return 1 if wrong else 0


def _median(times_s: list[float]) -> str:
    return f"{median(times_s):.1f}" if times_s else "no run"


if __name__ == "__main__":
    sys.exit(main())
