"""Runs the demo many times: `PYTHONPATH=tests/support python -m bench.demos [COUNT] [--jobs N]`.

Run it from the root of a checkout, as root. Each demo is `ebbtide run last-replica-standing --kafka 3.9.1,4.3.1` in
its own process. It must end as predicted on both releases and leave nothing on the host: namespaces, mounts, loop
devices, processes, interfaces and sysctls are compared before and after. Exit code 1 if a demo fails.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from statistics import median

from host_state import HostState

from ebbtide.record.files import RecordFolder
from ebbtide.record.manifest import read_manifest, records_of
from ebbtide.record.verdict import read_verdict


def demo(runs: Path, jobs: int) -> tuple[float, list[str]]:
    """Run one demo; returns its seconds, and what was wrong."""
    before = HostState.now()
    began = time.monotonic()
    command = [sys.executable, "-m", "ebbtide", "run", "last-replica-standing", "--kafka", "3.9.1,4.3.1"]
    command += ["--jobs", str(jobs)]
    done = subprocess.run([*command, "--runs", str(runs)], capture_output=True, text=True, check=False)
    took_s = time.monotonic() - began
    wrong = HostState.now().left_since(before, "ebbtide", str(runs))
    records = records_of(runs) if runs.is_dir() else []
    for record in records:
        verdict = read_verdict(RecordFolder(record))
        outcome = "no verdict" if verdict is None else verdict.outcome
        if outcome != "as-predicted":
            wrong.append(f"{record.name}: {outcome}: {'; '.join(verdict.why) if verdict else ''}")
    if done.returncode != 0 or len(records) != 2:
        wrong.append(f"exit code {done.returncode}, {len(records)} records: {done.stderr.strip()}")
    starts = [read_manifest(RecordFolder(record)).timings_s for record in records]
    told = ", ".join(f"{one.get('prepare', 0) + one.get('start cluster', 0):.1f}" for one in starts)
    print(
        f"{took_s:6.1f} s, cluster starts {told} s: {'; '.join(wrong) or 'as predicted twice, nothing left'}",
        flush=True,
    )
    return took_s, wrong


def main() -> int:
    """Run the demos; returns 1 if one failed."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("count", nargs="?", type=int, default=3)
    parser.add_argument("--jobs", type=int, default=2, metavar="N", help="releases at once, as `make demo` has them")
    options = parser.parse_args()
    count = options.count
    with tempfile.TemporaryDirectory(prefix="ebbtide-demos-") as folder:
        ended = [demo(Path(folder) / str(number), options.jobs) for number in range(count)]
    good = sum(not wrong for _, wrong in ended)
    print(f"{good} of {count} demos as predicted with nothing left, median {median(took for took, _ in ended):.1f} s")
    return 0 if good == count else 1


if __name__ == "__main__":
    sys.exit(main())
