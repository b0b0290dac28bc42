"""Simulates histories whose truth is known, and shows what a judge gets wrong in them.

    .venv/bin/python -m tools.simulate 1000 --seed 1

docs/development.md describes the histories. `--show KIND` tells the first history with a wrong answer of this kind,
with the fewest faults that it needs; `--write FOLDER` also writes its run record.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path
from time import process_time

sys.path.insert(0, str(Path(__file__).parents[1] / "tests" / "support"))

from simulator import draw_script, simulate, write_record
from simulator.compare import Comparison, Judge, is_wrong
from simulator.judges import JUDGES
from simulator.script import Script
from simulator.shrinking import shrink
from simulator.story import story


def main() -> int:
    """Simulate, judge and compare; the exit code is 1 if an answer is wrong."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("count", type=int, help="how many histories")
    parser.add_argument("--seed", type=int, default=0, help="the seed of the first history (default 0)")
    parser.add_argument("--degraded", action="store_true", help="leave evidence out of each history")
    parser.add_argument("--judge", choices=sorted(JUDGES), default=next(iter(JUDGES)), help="who judges")
    parser.add_argument("--show", metavar="KIND", help="tell the first history with such an answer, e.g. wrong-cause")
    parser.add_argument("--write", type=Path, metavar="FOLDER", help="write the run record of the history shown")
    asked = parser.parse_args()
    judge = JUDGES[asked.judge]
    began = process_time()
    comparison = Comparison()
    for seed in range(asked.seed, asked.seed + asked.count):
        script = draw_script(seed, degraded=asked.degraded)
        history = simulate(script)
        answers = judge(history)
        comparison.add(history, answers)
        if asked.show is not None and is_wrong(history, answers, (asked.show,)):
            _show(script, judge, asked.show, asked.write)
            return 1
    print("\n".join(comparison.lines(details=40)))
    print(f"{asked.count} histories, {(process_time() - began) / asked.count * 1000:.0f} ms of CPU each")
    return 0 if comparison.is_sound else 1


def _show(script: Script, judge: Judge, kind: str, folder: Path | None) -> None:
    small = simulate(shrink(script, lambda one: is_wrong(one, judge(one), (kind,))))
    print(story(small, judge(small)))
    if folder is not None:
        print(f"its run record: {write_record(small, folder)}")


if __name__ == "__main__":
    sys.exit(main())
