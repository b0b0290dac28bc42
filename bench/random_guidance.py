"""Compares guided with unguided random schedules on real clusters.

Run `python -m bench.random_guidance [STORE]` as root. A round runs one guided and one unguided schedule at the
same time, of the same seed and number of steps, and adds what they reached to the corpus of each. STORE keeps the
records and both corpora; the same command continues there until it has `--rounds` rounds or `--budget-s` is over.
Prints how many runs of each arm reached each state.
"""

from __future__ import annotations

import argparse
import contextlib
import sys
import tempfile
import time
from collections import Counter
from functools import partial
from pathlib import Path

import msgspec

from ebbtide.errors import EbbtideError
from ebbtide.record.files import append_line, read_lines
from ebbtide.record.verdict import Verdict
from ebbtide.scenario.model import Scenario
from ebbtide.scenario.plain_values import read_part
from harness.cli.analyze_stdin import JudgingSession, judge_together
from harness.random.guide import CORPUS, CorpusEntry, Guide, coverage_marks
from harness.replay.replaying import JudgeAll
from harness.runner.launch import Launch, LaunchOptions, check, prepare
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
    """One way to draw schedules: its guide, and its folder in the store."""

    def __init__(self, store: Path, name: str, kafka: str, steps: int) -> None:
        self.name = name
        self.folder = store / name
        self.guide = Guide(self.folder, kafka=kafka, steps=steps, guided=_ARMS[name])

    def request(self, seed: int, launch: Launch, options: LaunchOptions) -> tuple[Scenario, RunRequest]:
        """Draw the next schedule; return it, and the request that runs it."""
        scenario = self.guide.next_schedule(seed)
        check(options, scenario, scenario.kafka)
        return scenario, launch.request(scenario, scenario.kafka[0], seed)

    def corpus(self) -> list[CorpusEntry]:
        """Return the entries of this arm's corpus, oldest first."""
        remedy = "remove the line, or use another store"
        return read_lines(self.folder / CORPUS, CorpusEntry, what="corpus", next=remedy, dec_hook=read_part)


def play_round(
    number: int, seed: int, arms: list[Arm], launch: Launch, options: LaunchOptions, store: Path, judge: JudgeAll
) -> None:
    """Run, judge and record one run of each arm, both at once.

    Skips an arm that already has this seed.
    """
    asked = [(arm, *arm.request(seed, launch, options)) for arm in arms if not arm.guide.has_run(f"random-{seed}")]
    log = store / "runs.log"
    ran = list(run_side_by_side((((arm, scenario), request) for arm, scenario, request in asked), at_once=2, log=log))
    for (arm, scenario), record in ran:
        verdict, failure = judge_or_explain(record, judge)
        run = Run(
            arm=arm.name,
            round=number,
            record=record.name if isinstance(record, Path) else "",
            scenario=scenario.title,
            outcome=verdict.outcome if verdict is not None else "failed",
            why=verdict.why if verdict is not None else [failure],
        )
        append_line(store / "runs.jsonl", msgspec.json.encode(run) + b"\n")
        arm.guide.add(scenario, verdict.coverage if verdict is not None else {})
        print(f"round {number} {run.arm}: {run.outcome}, {run.scenario}{failure and f': {failure}'}", flush=True)


def judge_or_explain(record: Path | EbbtideError, judge: JudgeAll) -> tuple[Verdict | None, str]:
    """Return the verdict, or None and the reason.

    A failure does not end the next rounds.
    """
    if isinstance(record, EbbtideError):
        return None, record.render()
    try:
        end = judge([record])[record]
    except Exception as error:  # raised, a bug of the judge would end every later call at this round
        return None, f"not judged: {error}"
    return (None, f"not judged: {end}") if isinstance(end, EbbtideError) else (end, "")


def print_reached(arms: list[Arm]) -> None:
    """Print how many runs of each arm reached each mark, and which run was the first."""
    corpora = {arm.name: arm.corpus() for arm in arms}
    reached = {
        name: Counter(mark for one in runs for mark in coverage_marks(one.coverage)) for name, runs in corpora.items()
    }
    print(f"\n{'state':52}" + "".join(f"{name:>18}" for name in corpora))
    for mark in sorted(set().union(*reached.values())):
        cells = []
        for name, runs in corpora.items():
            first = next((at for at, one in enumerate(runs, 1) if mark in coverage_marks(one.coverage)), None)
            cells.append(f"{reached[name][mark]:>7} (from {first:>2})" if first is not None else f"{'-':>7}" + " " * 10)
        print(f"{mark:52}" + "".join(f"{cell:>18}" for cell in cells))
    for name, runs in corpora.items():
        print(f"{name}: {len(runs)} runs, {len(reached[name])} states and multiples of them reached")


def main() -> int:
    """Play the missing rounds, then print what each arm reached."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument(
        "store", nargs="?", type=Path, help="default: a temporary folder, which no later call continues"
    )
    parser.add_argument("--kafka", default="4.3.1")
    parser.add_argument("--steps", type=int, default=12)
    parser.add_argument("--seed", type=int, default=1, help="seed of the first round; each later round adds one")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--budget-s", type=float, default=float("inf"), help="start no round after this time")
    args = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="ebbtide-random-") as folder:
        return compare(args, args.store or Path(folder))


def compare(args: argparse.Namespace, store: Path) -> int:
    """Play the missing rounds of `store`, and print what each arm reached.

    Returns the exit code.
    """
    store.mkdir(parents=True, exist_ok=True)
    arms = [Arm(store, name, args.kafka, args.steps) for name in _ARMS]
    options = LaunchOptions(runs=store / "runs", runtime="local")
    done = min(len(arm.corpus()) for arm in arms)
    until = time.monotonic() + args.budget_s
    if done < args.rounds:
        launch = prepare(options, [args.kafka], print)
        with contextlib.closing(JudgingSession()) as session:
            judge = partial(judge_together, session)
            for number in range(done + 1, args.rounds + 1):
                if time.monotonic() >= until:
                    break
                play_round(number, args.seed + number - 1, arms, launch, options, store, judge)
    print_reached(arms)
    return 0


if __name__ == "__main__":
    sys.exit(main())
