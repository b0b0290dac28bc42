"""Runs two nights at once, the second in a container's view of the host, and samples what both take from it.

    PYTHONPATH=tests/support .venv/bin/python -m bench.two_harnesses --minutes 12

It runs as root, from a checkout. Both nights run on this kernel. The second one has namespaces of mounts and
processes, a /run and a home of its own: neither sees the other's ledgers, locks and processes. While they run, the
bench samples memory, descriptors, processes and disk. In the end nothing may be left, no run may be contradicted or
failed, each night must have come to its end, and its own descriptors may not grow. Exit code 1 otherwise. Inconclusive
runs are listed with their reason: a power loss is unproven once the other harness has ended its hold of write-back.
"""

from __future__ import annotations

import argparse
import contextlib
import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import median

import psutil
from host_state import HostState, left_after

from ebbtide.errors import ExitCode
from ebbtide.places import cache_dir
from ebbtide.waiting import pause
from harness.nightly.store import FinishedJob, JobEnd, Store

ELSEWHERE = (
    "unshare",
    "--mount",
    "--propagation",
    "unchanged",
    "--pid",
    "--fork",
    "--kill-child",
    "--mount-proc",
    "--",
)
# Under chroot, / is no mount, and unshare cannot make it private; /run then is one.
OWN_RUN = '{ mount --make-rprivate / 2>&- || mount --make-private /run; } && mount -t tmpfs none /run && exec "$@"'
SAMPLE_S = 2.0
GROWTH_MAX = 10
"""More descriptors than this between the first and the last third of a night are a leak."""
ASK_AFTER_S = 600.0
"""A night that goes on this long after its budget is asked to end."""
KILL_AFTER_S = 300.0
"""A night that goes on this long after it was first asked is killed."""
_KILL_WAIT_S = 30.0
_EXIT_CODES = (ExitCode.AS_PREDICTED, ExitCode.CONTRADICTED, ExitCode.INCONCLUSIVE)
"""The ends of a whole night. With any other exit code it crashed, was interrupted, or had runs that failed."""


@dataclass(frozen=True, kw_only=True)
class Harness:
    """A night that goes on, and the folder of its store."""

    name: str
    process: psutil.Popen
    store: Path

    def processes(self) -> list[psutil.Process]:
        """The processes of this harness that live, as this host sees them."""
        try:
            return [self.process, *self.process.children(recursive=True)]
        except psutil.NoSuchProcess:
            return []

    def night(self) -> psutil.Process | None:
        """The process of the night itself, which lives from its begin to its end."""
        return next(
            (one for one in self.processes() if b"nightly" in _words(one) and b"unshare" not in _words(one)), None
        )


@dataclass(frozen=True, kw_only=True)
class Sample:
    """What one harness takes at one moment: the night's own process, and everything that it started."""

    night_mib: float
    night_descriptors: int
    all_mib: float
    all_descriptors: int
    processes: int
    disk_mib: float


def sample_of(harness: Harness) -> Sample | None:
    """Sample a harness; None once its night has ended."""
    night = harness.night()
    if night is None:
        return None
    own = _figures(night)
    all_ = [_figures(one) for one in harness.processes()]
    return Sample(
        night_mib=own[0],
        night_descriptors=own[1],
        all_mib=sum(one[0] for one in all_),
        all_descriptors=sum(one[1] for one in all_),
        processes=len(all_),
        disk_mib=_disk_mib(harness.store),
    )


def thirds(values: Sequence[float]) -> tuple[float, float]:
    """The medians of the first and of the last third of some values."""
    third = max(len(values) // 3, 1)
    return median(values[:third]), median(values[-third:])


def start(name: str, folder: Path, options: Sequence[str], *, releases: str, elsewhere: bool) -> Harness:
    """Start a night in `folder`, with a store and a log of its own; `elsewhere`: as in another container."""
    home = folder / name
    home.mkdir()
    environment = {**os.environ, "TMPDIR": str(home / "tmp"), "EBBTIDE_NO_COLOR": "1"}
    (home / "tmp").mkdir()
    store = home / "store"
    night = [sys.executable, "-m", "ebbtide", "nightly", "--kafka", releases, "--store", str(store)]
    words = [*night, "--runtime", "local", *options]
    if elsewhere:
        environment |= {"HOME": str(home), "EBBTIDE_CACHE": str(_copied_cache(home, releases.split(",")))}
        words = [*ELSEWHERE, "sh", "-c", OWN_RUN, "sh", *words]
    with (home / "night.log").open("wb") as log:
        process = psutil.Popen(words, env=environment, stdin=subprocess.DEVNULL, stdout=log, stderr=log)
    return Harness(name=name, process=process, store=store)


def watch(
    harnesses: Sequence[Harness], *, until_s: float, kill_after_s: float = KILL_AFTER_S
) -> tuple[dict[str, list[Sample]], list[str]]:
    """Sample the harnesses until all have ended. Past `until_s` (monotonic), ask them to end, and then kill them.

    Also returns a finding for each harness that was killed.
    """
    samples: dict[str, list[Sample]] = {one.name: [] for one in harnesses}
    while alive := [one for one in harnesses if one.process.poll() is None]:
        for one in harnesses:
            sample = sample_of(one)
            if sample is not None:
                samples[one.name].append(sample)
        if time.monotonic() > until_s + kill_after_s:
            return samples, [_kill(one, samples[one.name]) for one in alive]
        if time.monotonic() > until_s:
            # At every sample: a night may not have begun when it was asked first, and a second signal does no harm.
            for one in alive:
                with contextlib.suppress(psutil.NoSuchProcess):
                    if (night := one.night()) is not None:
                        night.terminate()
        pause(SAMPLE_S)
    return samples, []


def _kill(harness: Harness, samples: Sequence[Sample]) -> str:
    """Kill a harness with all that it started, and return the finding."""
    for one in reversed(harness.processes()):
        with contextlib.suppress(psutil.NoSuchProcess):
            one.kill()
    with contextlib.suppress(psutil.TimeoutExpired):  # it hangs in the kernel; then it has no exit code
        harness.process.wait(_KILL_WAIT_S)
    return f"{harness.name}: killed, since it did not end when asked; last sample: {samples[-1] if samples else 'none'}"


def lines_of(harness: Harness, samples: Sequence[Sample], jobs: Sequence[FinishedJob]) -> list[str]:
    """What a harness did, and what it took."""
    ends = Counter(job.ended for job in jobs)
    said = [f"{harness.name}: exit code {harness.process.returncode}, {len(jobs)} runs: {_counts(ends)}"]
    said += [f"  {_reason(job)}" for job in jobs if job.ended == "inconclusive"]
    if not samples:
        return said

    def row(label: str, values: Sequence[float]) -> str:
        early, late = thirds(values)
        return f"  {label:<30} {early:>8.0f} {late:>8.0f} {max(values):>8.0f}"

    return [
        *said,
        f"  {f'{len(samples)} samples, medians':<30} {'early':>8} {'late':>8} {'most':>8}",
        row("the night's memory, MiB", [one.night_mib for one in samples]),
        row("the night's descriptors", [one.night_descriptors for one in samples]),
        row("all its processes", [one.processes for one in samples]),
        row("their memory (RSS), MiB", [one.all_mib for one in samples]),
        row("their descriptors", [one.all_descriptors for one in samples]),
        row("disk of its store, MiB", [one.disk_mib for one in samples]),
    ]


def findings_of(harness: Harness, samples: Sequence[Sample], jobs: Sequence[FinishedJob]) -> list[str]:
    """What should not be: bad ends, a night without runs, descriptors that grow."""
    log = harness.store.parent / "night.log"
    found = [] if jobs else [f"{harness.name}: no run ended; see {log}"]
    if harness.process.returncode not in _EXIT_CODES:
        found.append(f"{harness.name}: the night ended with exit code {harness.process.returncode}; see {log}")
    found += [
        f"{harness.name}: {_reason(job)}"
        for job in jobs
        if job.ended == "failed" or (job.ended == "contradicted" and job.known_bug is None)
    ]
    if samples:
        early, late = thirds([one.night_descriptors for one in samples])
        if late - early > GROWTH_MAX:
            found.append(f"{harness.name}: the night's descriptors grew by {late - early:.0f}")
    return found


def _reason(job: FinishedJob) -> str:
    return f"{job.job.group}: {job.ended}: {'; '.join(job.why[:1])}"


def _words(process: psutil.Process) -> set[bytes]:
    try:
        return {word.encode() for word in process.cmdline()[:8]}
    except psutil.Error:
        return set()


def _figures(process: psutil.Process) -> tuple[float, int]:
    try:
        return process.memory_info().rss / 2**20, process.num_fds()
    except psutil.Error:  # it ended meanwhile
        return 0.0, 0


def _disk_mib(folder: Path) -> float:
    done = subprocess.run(["du", "-sk", str(folder)], capture_output=True, text=True, check=False)
    return int(done.stdout.split()[0]) / 1024 if done.stdout.split() else 0.0


def _copied_cache(home: Path, releases: Sequence[str]) -> Path:
    """A cache of its own with the releases that this user has fetched."""
    for release in releases:
        fetched = cache_dir() / "kafka" / release
        if fetched.is_dir():
            shutil.copytree(fetched, home / "cache" / "kafka" / release, symlinks=True)
    return home / "cache"


def _counts(ends: Mapping[JobEnd, int]) -> str:
    return ", ".join(f"{count} {end}" for end, count in sorted(ends.items())) or "none"


def main(argv: Sequence[str] | None = None) -> int:
    """Run both nights, and print what they took, and what was found."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--minutes", type=float, default=12.0, help="the budget of each night")
    parser.add_argument("--kafka", default="3.9.1,4.3.1")
    parser.add_argument("--scenarios", help="only these of the catalogue, and no random schedules")
    parser.add_argument("--folder", type=Path, help="where the stores go (default: a new temporary folder)")
    args = parser.parse_args(argv)
    folder = Path(tempfile.mkdtemp(prefix="two-harnesses-", dir=args.folder))
    before, began = HostState.now(), time.monotonic()
    available = psutil.virtual_memory().available
    print(f"in {folder}", flush=True)
    options = ["--budget", f"{args.minutes * 60:.0f}s"]
    options += ["--no-random", "--scenarios", args.scenarios] if args.scenarios else []
    nights = [
        start(name, folder, options, releases=args.kafka, elsewhere=name == "elsewhere")
        for name in ("here", "elsewhere")
    ]
    samples, killed = watch(nights, until_s=began + args.minutes * 60 + ASK_AFTER_S)
    print(f"{time.monotonic() - began:.0f} s; memory available: {available / 2**20:.0f} MiB before", end="")
    print(f", {psutil.virtual_memory().available / 2**20:.0f} MiB after")
    jobs_of = {night.name: Store(night.store).history() for night in nights}
    runs = [job.run_id for jobs in jobs_of.values() for job in jobs if job.run_id is not None]
    findings = [*killed, *(f"left: {one}" for one in left_after(before, str(folder), *runs))]
    findings += [f"left: temporary {one}" for night in nights for one in (night.store.parent / "tmp").iterdir()]
    for night in nights:
        jobs = jobs_of[night.name]
        print("\n".join(lines_of(night, samples[night.name], jobs)))
        findings += findings_of(night, samples[night.name], jobs)
    print("\n".join(findings or ["nothing left, nothing grew, no false verdict"]))
    if not findings:
        shutil.rmtree(folder, ignore_errors=True)
    return int(bool(findings))


if __name__ == "__main__":
    sys.exit(main())
