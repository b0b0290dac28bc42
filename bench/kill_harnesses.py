"""Kills `ebbtide` at random moments of every verb, runs `ebbtide clean` once, and reports what is left.

    PYTHONPATH=tests/support .venv/bin/python -m bench.kill_harnesses --minutes 4 --seed 7
    PYTHONPATH=tests/support tools/docker-daemon .venv/bin/python -m bench.kill_harnesses --verbs docker-run

It runs as root, from a checkout.

A round starts some commands at once, kills each at its own moment (SIGKILL, one of its harness processes or all), runs
one `clean`, and looks at the host: namespaces, mounts, loop devices, processes, interfaces, containers, sysctls,
ledgers and temporary folders. Then it reads the verdicts: a run that was cut short must be inconclusive. Exit code 1 if
anything is left, or a verdict is better than that.
"""

from __future__ import annotations

import argparse
import os
import random
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import msgspec
from host_state import HostState, left_after

from cluster.host.ledger import LedgerOpened
from ebbtide.locks import is_held
from ebbtide.record.files import RecordFolder
from ebbtide.record.manifest import read_manifest, records_of
from ebbtide.record.verdict import read_verdict
from ebbtide.waiting import WaitExpired, pause, wait_until

MARK = "EBBTIDE_KILL_MOMENT"
"""The environment variable of every process that a command of this script started."""
RECORDS = Path(__file__).parents[1] / "tests" / "data" / "runs"
KAFKA = "4.3.1"
_COMMAND = (sys.executable, "-m", "ebbtide")
_CLEAN_TIMEOUT_S = 120.0


@dataclass(frozen=True, kw_only=True)
class Place:
    """The folders of one round; `number` makes the names of its clusters its own."""

    folder: Path
    number: int

    @property
    def runs(self) -> Path:
        return self.folder / "runs"

    def copy_of(self, record: str) -> Path:
        """A recorded run that a command may write to."""
        copy = self.folder / "copies" / f"{record}-{self.number}-{len(list(self.folder.glob('copies/*')))}"
        shutil.copytree(RECORDS / record, copy)
        return copy


@dataclass(frozen=True, kw_only=True)
class Victim:
    """A verb: the command to kill, the commands to run to their end before it, and its latest moment."""

    arguments: Callable[[Place], Sequence[str | Path]]
    before: Callable[[Place], Sequence[Sequence[str | Path]]] = lambda _: ()
    latest_s: float = 25.0


def _run(place: Place, runtime: str = "local", scenario: str = "healthy") -> list[str | Path]:
    return ["run", scenario, "--kafka", KAFKA, "--runs", place.runs, "--runtime", runtime]


def _up(place: Place) -> list[str | Path]:
    return ["cluster", "up", "--kafka", KAFKA, "--runtime", "local", "--runs", place.runs, "--cluster", _name(place)]


def _name(place: Place) -> str:
    return f"kill-{os.getpid()}-{place.number}"


def _small(place: Place) -> list[str | Path]:
    return ["--kafka", KAFKA, "--runtime", "local", "--runs", place.runs]


VICTIMS: dict[str, Victim] = {
    "run": Victim(arguments=lambda place: _run(place, scenario="last-replica-standing")),
    "analyze": Victim(arguments=lambda place: ["analyze", place.copy_of("last-replica-standing-4.3.1")], latest_s=20),
    "replay": Victim(arguments=lambda place: ["replay", place.copy_of("last-replica-standing-4.3.1"), *_small(place)]),
    "shrink": Victim(
        arguments=lambda place: [
            *("shrink", place.copy_of("last-replica-standing-3.9.1"), "--out", place.folder / f"{place.number}.toml"),
            *("--runtime", "local", "--budget", "5m"),
        ]
    ),
    "nightly": Victim(
        arguments=lambda place: [
            *("nightly", "--budget", "5m", "--scenarios", "healthy", "--kafka", KAFKA, "--no-random"),
            *("--runtime", "local", "--store", place.folder / f"store-{place.number}"),
        ]
    ),
    "random": Victim(
        arguments=lambda place: ["random", "--seed", str(place.number), "--run", *_small(place)],
    ),
    "cluster-up": Victim(arguments=_up),
    "cluster-down": Victim(
        arguments=lambda place: ["cluster", "down", _name(place)], before=lambda place: [_up(place)], latest_s=6
    ),
    "doctor": Victim(arguments=lambda _: ["doctor"], latest_s=6),
    "clean": Victim(arguments=lambda _: ["clean"], latest_s=1.5),
    "docker-run": Victim(arguments=lambda place: _run(place, "docker")),
}
"""Each verb that is killed."""


@dataclass(kw_only=True)
class Tally:
    """What was killed, and what was found after it."""

    kills: Counter[str] = field(default_factory=Counter)
    ended_before: Counter[str] = field(default_factory=Counter)
    findings: list[str] = field(default_factory=list)

    def lines(self) -> list[str]:
        """The closing lines."""
        counts = ", ".join(f"{verb} {count}" for verb, count in sorted(self.kills.items()))
        early = ", ".join(f"{verb} {count}" for verb, count in sorted(self.ended_before.items()))
        return [
            f"{self.kills.total()} kills: {counts or 'none'}",
            f"ended before their moment: {early or 'none'}",
            *(self.findings or ["nothing left, no false verdict"]),
        ]


def processes_with(mark: str) -> list[int]:
    """The processes whose environment has this mark."""
    found = []
    for process in Path("/proc").glob("[0-9]*"):
        try:
            if f"{MARK}={mark}".encode() in (process / "environ").read_bytes().split(b"\0"):
                found.append(int(process.name))
        except OSError:
            continue
    return found


def _harnesses_with(mark: str) -> list[int]:
    """Those of them that are Ebbtide itself: the command, its daemon, and a process for each run."""
    found = []
    for pid in processes_with(mark):
        try:
            words = Path(f"/proc/{pid}/cmdline").read_bytes().split(b"\0")
        except OSError:
            continue
        if b"ebbtide" in words or any(
            word.startswith((b"from multiprocessing", b"--multiprocessing")) for word in words
        ):
            found.append(pid)
    return found


def kill_round(
    place: Place, verbs: Sequence[str], roll: random.Random, tally: Tally, *, note: Callable[[str], None]
) -> None:
    """Start one command for each of `verbs`, kill each, clean once, and look."""
    before, ledgers = HostState.now(), frozenset(_ledgers())
    environment = {**os.environ, "TMPDIR": str(place.folder / "tmp"), "EBBTIDE_NO_COLOR": "1"}
    (place.folder / "tmp").mkdir(exist_ok=True)
    started: list[tuple[float, str, str, subprocess.Popen[bytes]]] = []
    places = [Place(folder=place.folder, number=place.number * 100 + at) for at in range(len(verbs))]
    marks = [f"{os.getpid()}-{mine.number}" for mine in places]
    setups = [
        subprocess.Popen(
            _words(words),
            env={**environment, MARK: mark},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        for verb, mine, mark in zip(verbs, places, marks, strict=True)
        for words in VICTIMS[verb].before(mine)
    ]
    for setup in setups:
        setup.wait()
    for verb, mine, mark in zip(verbs, places, marks, strict=True):
        marked = {**environment, MARK: mark}
        words = VICTIMS[verb].arguments(mine)
        moment_s = 0.2 * (VICTIMS[verb].latest_s / 0.2) ** roll.random()
        with (place.folder / f"{mine.number}-{verb}.log").open("wb") as log:
            process = subprocess.Popen(
                _words(words), env=marked, stdin=subprocess.DEVNULL, stdout=log, stderr=log, start_new_session=True
            )
        started.append((time.monotonic() + moment_s, verb, mark, process))
    for moment, verb, mark, process in sorted(started, key=lambda one: one[0]):
        pause(max(0.0, moment - time.monotonic()))
        _kill(verb, mark, process, roll, tally)
    pause(1.0)
    said = _clean(environment)
    left = _leftovers(place, before, ledgers, [mark for _, _, mark, _ in started])
    if left:
        tally.findings += [f"round {place.number} ({', '.join(verbs)}): left: {one}" for one in left]
        tally.findings.append(f"round {place.number}: clean said: {said}")
    note(f"round {place.number}: {', '.join(verbs)}: {'; '.join(left) or 'nothing left'}")


def _words(arguments: Sequence[str | Path]) -> list[str]:
    return [*_COMMAND, *map(str, arguments)]


def _kill(verb: str, mark: str, process: subprocess.Popen[bytes], roll: random.Random, tally: Tally) -> None:
    """Kill one harness process of a command, or all, and then whatever of them goes on."""
    victims = _harnesses_with(mark)
    if not victims:
        tally.ended_before[verb] += 1
    elif roll.random() < 0.5:
        victims = [roll.choice(victims)]
    for pid in victims:
        _send_kill(pid)
    tally.kills[verb] += bool(victims)
    # What goes on without the one that was killed, such as the daemon of a cluster, is killed too: one `clean` has
    # to undo what all of them left.
    pause(roll.uniform(0.0, 0.5))
    for pid in _harnesses_with(mark):
        _send_kill(pid)
    process.wait()


def _send_kill(pid: int) -> None:
    try:
        os.kill(pid, signal.SIGKILL)
    except ProcessLookupError:
        return


def _clean(environment: dict[str, str]) -> str:
    done = subprocess.run(
        _words(["clean"]), env=environment, capture_output=True, text=True, timeout=_CLEAN_TIMEOUT_S, check=False
    )
    return f"exit code {done.returncode}: {(done.stdout + done.stderr).strip()}"


def _ledgers() -> list[Path]:
    return [one for one in Path("/run/ebbtide/ledger").glob("*") if one.suffix in (".jsonl", ".damaged", ".part")]


def _leftovers(place: Place, before: HostState, ledgers: frozenset[Path], marks: Sequence[str]) -> list[str]:
    runs = [record.name for folder in place.folder.rglob("runs") for record in records_of(folder)]
    left = left_after(before, str(place.folder), "ebbtide-doctor", *runs)
    left += [f"temporary {one}" for one in (place.folder / "tmp").glob("ebbtide-*")]
    # A ledger that was there before is somebody else's. So is one whose lock is held; its run may hold write-back.
    live = [one for one in _ledgers() if is_held(one)]
    found = [one for one in _ledgers() if one not in ledgers and one not in live]
    left += [f"ledger {one}" for one in found if not is_of_another(one, place.folder)]
    if live:
        left = [one for one in left if not one.startswith("sysctl vm.dirty_")]
    try:
        wait_until(lambda: not any(map(processes_with, marks)), awaited="the processes to end", timeout_s=10.0)
    except WaitExpired:
        pids = [pid for mark in marks for pid in processes_with(mark)]
        left += [f"process {pid}: {_command_of(pid)}" for pid in pids]
    return left


def is_of_another(ledger: Path, folder: Path) -> bool:
    """Whether a ledger says that its run is none of this script's, whose runs lie in `folder`.

    A doctor's ledger names the folder that it was called from. What cannot be read counts as this script's.
    """
    try:
        opened = msgspec.json.decode(ledger.read_bytes().partition(b"\n")[0], type=LedgerOpened)
    except (OSError, msgspec.DecodeError):
        return False
    run = Path(opened.folder)
    return run != Path.cwd() and not run.is_relative_to(folder.absolute())


def _command_of(pid: int) -> str:
    try:
        return Path(f"/proc/{pid}/cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace")[:200]
    except OSError:
        return "gone"


def false_verdicts(folder: Path) -> list[str]:
    """The records of runs that were cut short, and yet have another verdict than inconclusive."""
    found = []
    for runs in {manifest.parents[1] for manifest in folder.rglob("manifest.json")}:
        for record in records_of(runs):
            status, verdict = read_manifest(RecordFolder(record)).status, read_verdict(RecordFolder(record))
            if status != "complete" and verdict is not None and verdict.outcome != "inconclusive":
                found.append(f"{record.name} is {status}, and {verdict.outcome}")
    return found


def judged_verdicts(folder: Path) -> list[str]:
    """Judge every record that the kills left, and return what should not be."""
    done = subprocess.run(_words(["analyze", folder, "--json"]), capture_output=True, text=True, check=False)
    if "internal error" in done.stderr:
        return [f"analyze: {done.stderr.strip()}"]
    return false_verdicts(folder)


def main(argv: Sequence[str] | None = None) -> int:
    """Run rounds until the time is over."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--minutes", type=float, default=4.0)
    parser.add_argument("--seed", type=int, default=time.time_ns() % 1_000_000)
    parser.add_argument("--at-once", type=int, default=5)
    parser.add_argument("--rounds", type=int, default=1_000_000)
    parser.add_argument("--verbs", default=",".join(verb for verb in VICTIMS if verb != "docker-run"))
    parser.add_argument("--judge", action="store_true", help="judge the records that the kills left, at the end")
    args = parser.parse_args(argv)
    roll, tally, verbs = random.Random(args.seed), Tally(), args.verbs.split(",")
    folder = Path(tempfile.mkdtemp(prefix="ebbtide-kills-"))
    ends = time.monotonic() + args.minutes * 60
    queue: list[str] = []
    print(f"seed {args.seed}, in {folder}", flush=True)
    for number in range(1, args.rounds + 1):
        if time.monotonic() >= ends:
            break
        while len(queue) < args.at_once:
            queue += roll.sample(verbs, len(verbs))
        chosen, queue = queue[: args.at_once], queue[args.at_once :]
        kill_round(Place(folder=folder, number=number), chosen, roll, tally, note=lambda text: print(text, flush=True))
    tally.findings += false_verdicts(folder)
    if args.judge:
        tally.findings += judged_verdicts(folder / "runs")
    print("\n".join(tally.lines()))
    if not tally.findings:
        shutil.rmtree(folder, ignore_errors=True)
    return int(bool(tally.findings))


if __name__ == "__main__":
    sys.exit(main())
