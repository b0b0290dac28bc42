"""Guided against unguided random schedules: `python -m bench.chance [STORE]`, as root; the same command goes on.

One round is one run of each, of the same seed and so many steps, side by side on the host; the guide is told what
its runs reached. STORE keeps the records and both corpora: round after round until `--rounds` are there, or
`--budget-s` is over. Prints the states that the runs of each have reached, side by side.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path

import msgspec

from ebbtide.errors import EbbtideError
from ebbtide.record.json_files import append_line, read_lines
from ebbtide.record.verdict import Verdict
from ebbtide.scenario.model import Scenario
from ebbtide.scenario.plain import read_text
from harness.cli.judging import JudgeTogether, judging_together
from harness.random.guide import CORPUS, Guide, Told, marks
from harness.runner.launch import Launch, Wanted, check, prepare
from harness.runner.run import RunRequest
from harness.runner.side_by_side import run_side_by_side

_ARMS = {"guided": True, "unguided": False}


class Run(msgspec.Struct, frozen=True, kw_only=True):
    """One line of runs.jsonl."""

    arm: str
    round: int
    record: str
    scenario: str
    outcome: str
    why: list[str]


class Arm:
    """One way to draw: its guide, and its place in the store."""

    def __init__(self, store: Path, name: str, kafka: str, steps: int) -> None:
        self.name = name
        self.folder = store / name
        self.guide = Guide(self.folder, kafka=kafka, steps=steps, guided=_ARMS[name])

    def request(self, seed: int, launch: Launch, wanted: Wanted) -> tuple[Scenario, RunRequest]:
        """What is run next."""
        scenario = self.guide.next(seed)
        check(wanted, scenario, scenario.kafka)
        return scenario, launch.request(scenario, scenario.kafka[0], seed)

    def told(self) -> list[Told]:
        """What its runs reached, in order."""
        remedy = "take the line out, or begin another store"
        return read_lines(self.folder / CORPUS, Told, what="corpus", next=remedy, dec_hook=read_text)


def play_round(
    number: int, seed: int, arms: list[Arm], launch: Launch, wanted: Wanted, store: Path, judge: JudgeTogether
) -> None:
    """One run of each arm, both at once, judged, and written down; not of one that a killed call had judged."""
    asked = [(arm, *arm.request(seed, launch, wanted)) for arm in arms if not arm.guide.knows(f"random-{seed}")]
    log = store / "runs.log"
    ran = list(run_side_by_side((((arm, scenario), request) for arm, scenario, request in asked), at_once=2, log=log))
    for (arm, scenario), record in ran:
        verdict, failure = judged(record, judge)
        run = Run(
            arm=arm.name,
            round=number,
            record=record.name if isinstance(record, Path) else "",
            scenario=scenario.title,
            outcome=verdict.outcome if verdict is not None else "failed",
            why=verdict.why if verdict is not None else [failure],
        )
        append_line(store / "runs.jsonl", msgspec.json.encode(run) + b"\n")
        arm.guide.told(scenario, verdict.coverage if verdict is not None else {})
        print(f"round {number} {run.arm}: {run.outcome}, {run.scenario}{failure and f': {failure}'}", flush=True)


def judged(record: Path | EbbtideError, judge: JudgeTogether) -> tuple[Verdict | None, str]:
    """The verdict, or None and why there is none: the next round is played all the same."""
    if isinstance(record, EbbtideError):
        return None, record.render()
    try:
        end = judge([record])[record]
    except Exception as error:  # a bug of the judge would end every next call at this round too
        return None, f"not judged: {error}"
    return (None, f"not judged: {end}") if isinstance(end, EbbtideError) else (end, "")


def tell(arms: list[Arm]) -> None:
    """The marks of each arm side by side: in how many runs each was reached, and since which."""
    told = {arm.name: arm.told() for arm in arms}
    reached = {name: Counter(mark for one in runs for mark in marks(one.coverage)) for name, runs in told.items()}
    print(f"\n{'state':52}" + "".join(f"{name:>18}" for name in told))
    for mark in sorted(set().union(*reached.values())):
        cells = []
        for name, runs in told.items():
            first = next((at for at, one in enumerate(runs, 1) if mark in marks(one.coverage)), None)
            cells.append(f"{reached[name][mark]:>7} (from {first:>2})" if first is not None else f"{'-':>7}" + " " * 10)
        print(f"{mark:52}" + "".join(f"{cell:>18}" for cell in cells))
    for name, runs in told.items():
        print(f"{name}: {len(runs)} runs, {len(reached[name])} states and multiples of them reached")


def main() -> int:
    """Play rounds, then tell."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("store", nargs="?", type=Path, help="default: a temporary folder, with which nothing goes on")
    parser.add_argument("--kafka", default="4.3.1")
    parser.add_argument("--steps", type=int, default=12)
    parser.add_argument("--seed", type=int, default=1, help="of the first round; the next ones count on")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--budget-s", type=float, default=float("inf"), help="begin no round after it")
    args = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="ebbtide-chance-") as folder:
        return compare(args, args.store or Path(folder))


def compare(args: argparse.Namespace, store: Path) -> int:
    """Go on with the rounds of `store`."""
    store.mkdir(parents=True, exist_ok=True)
    arms = [Arm(store, name, args.kafka, args.steps) for name in _ARMS]
    wanted = Wanted(runs=store / "runs", runtime="local")
    done = min(len(arm.told()) for arm in arms)
    until = time.monotonic() + args.budget_s
    if done < args.rounds:
        launch = prepare(wanted, [args.kafka], print)
        with judging_together() as judge:
            for number in range(done + 1, args.rounds + 1):
                if time.monotonic() >= until:
                    break
                play_round(number, args.seed + number - 1, arms, launch, wanted, store, judge)
    tell(arms)
    return 0


if __name__ == "__main__":
    sys.exit(main())
