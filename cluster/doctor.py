"""Checks what this host can do: each thing that a run needs is tried for real.

A check names what its absence disables, and the remedy. `check_host` is for a person (`ebbtide doctor`);
`require_host` lets a run refuse before it starts anything. A check that throws is `unknown`, never `ok`.
"""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Callable, Iterable
from functools import partial
from pathlib import Path
from typing import Literal

import msgspec

from cluster.clean import describe_leftovers
from cluster.jars import maven
from ebbtide import java, librdkafka
from ebbtide.errors import EbbtideError, HarnessError
from ebbtide.memory import free_memory
from ebbtide.places import cache_dir
from ebbtide.privileges import current_privileges, sudo_command
from ebbtide.scenario.steps.table import kinds_needing
from ebbtide.shown_text import plural

EVERY_RUN = "every run"
VOLUMES = "power-loss by file system shutdown"
"""The power loss that needs a volume for each node; without volumes, a power loss is by `truncate`."""

XFS_POWER_LOSS = "power-loss on xfs"
LIBRDKAFKA_CLIENTS = "clients with librdkafka"

FREE_DISK_BYTES = 1 << 30
"""A run writes a few hundred MB of logs and evidence; this is that with room to spare."""

FREE_MEMORY_BYTES = 2 << 30
"""Room for a controller and three brokers at about 290 MB each, the clients, and Spark.

With several clusters at once there is one Spark for all of them, with up to a GB for small records.
"""

_NO_VOLUMES = "a user namespace cannot mount volumes"
_MORE_PRIVILEGES = f"{sudo_command()}, or a Docker daemon that you may use"

Status = Literal["ok", "missing", "unknown"]


class Check(msgspec.Struct, frozen=True, kw_only=True):
    """The outcome of one check.

    `disables`: what is impossible unless `status` is ok, as kinds of step (`power-loss`), `EVERY_RUN`, or words.
    `remedy`: the command that fixes it, or None. `needed`: every run on the local runtime
    needs it. The other checks concern some kinds of step, or another runtime.
    """

    name: str
    status: Status
    detail: str
    disables: tuple[str, ...] = ()
    remedy: str | None = None
    needed: bool = True


class _Question(msgspec.Struct, frozen=True, kw_only=True):
    """A check to be made.

    `look` returns a line about what it found, or raises an error that says why the thing is missing.
    """

    name: str
    look: Callable[[], str]
    disables: tuple[str, ...] = ()
    remedy: str | None = None
    needed: bool = True
    trial: bool = False
    """The check makes something for real, which takes a while. A trial that passed is not repeated."""


_passed: set[str] = set()
"""The names of the trials that have passed in this process."""


def check_host() -> list[Check]:
    """Make every check now (a second or two). Never raises for what it finds."""
    return [_check(question) for question in QUESTIONS]


def require_host(steps: Iterable[str]) -> None:
    """Raise one `HarnessError` with all that a local run with these steps lacks.

    Only the checks that concern the kinds of step `steps` are made. A night calls this before every run: a trial that
    passed is not repeated, memory is checked each time.
    """
    lacking = _failed_checks({EVERY_RUN, *steps})
    if lacking:
        raise HarnessError(
            "this host cannot run this: " + ", ".join(check.name for check in lacking),
            got="; ".join(f"{check.name}: {check.detail}" for check in lacking),
            next="; ".join(dict.fromkeys(check.remedy for check in lacking if check.remedy)) or "ebbtide doctor",
        )


def require_memory(clusters: int) -> None:
    """Raise `HarnessError` where memory is too small for `clusters` clusters at once."""
    free = free_memory()
    if free < clusters * FREE_MEMORY_BYTES:
        raise HarnessError(
            f"too little memory for {clusters} clusters at once",
            got=f"{_gigabytes(free)} available, {_gigabytes(clusters * FREE_MEMORY_BYTES)} needed",
            next=f"--jobs {max(1, free // FREE_MEMORY_BYTES)}",
        )


def require_cores(clusters: int) -> None:
    """Raise `HarnessError` where `clusters` clusters at once have less than a CPU core each."""
    cores = len(os.sched_getaffinity(0))
    if cores < clusters:
        raise HarnessError(
            f"too few CPU cores for {clusters} clusters at once",
            got=plural(cores, "core"),
            allowed="a core for each cluster, so that delays do not show in the records",
            next=f"--jobs {cores}",
        )


def why_no_volumes() -> str | None:
    """Return why this host cannot shut down file systems; None when it can."""
    if current_privileges() == "user namespace":
        return _NO_VOLUMES
    return "; ".join(f"{check.name}: {check.detail}" for check in _failed_checks({VOLUMES})) or None


def _failed_checks(concerned: set[str]) -> list[Check]:
    """Return the checks that disable any of `concerned` and have not passed."""
    lacking = []
    for question in QUESTIONS:
        if question.name in _passed or not concerned.intersection(question.disables):
            continue
        check = _check(question)
        if check.status != "ok":
            lacking.append(check)
        elif question.trial:
            _passed.add(question.name)
    return lacking


def _check(question: _Question) -> Check:
    status: Status = "ok"
    remedy: str | None = None
    try:
        detail = question.look()
    except EbbtideError as error:
        status = "missing"
        detail = error.what + (f" ({error.got})" if error.got else "")
        remedy = error.next or question.remedy
    except Exception as error:
        status = "unknown"
        detail = f"the check itself failed: {type(error).__name__}: {error}"
        remedy = question.remedy
    return Check(
        name=question.name,
        status=status,
        detail=detail.replace("\n", " "),
        disables=question.disables,
        remedy=remedy,
        needed=question.needed,
    )


def _privileges() -> str:
    from cluster.privileges import helper_container, user_namespace

    match current_privileges():
        case "root":
            return "root"
        case "helper container":
            return "helper container of the Docker daemon, which can do everything that root can"
        case "user namespace":
            return "user namespace, which cannot mount volumes, hold write-back or use a Docker daemon"
        case "none":
            refusals = (helper_container.why_unavailable(), user_namespace.why_unavailable())
            raise HarnessError(
                f"none: user {os.geteuid()} is not root",
                got=f"no helper container: {refusals[0]}; no user namespace: {refusals[1]}",
                next=f"one of: {sudo_command()}; {user_namespace.remedy()}",
            )


def _as_root(trial: str, *arguments: str) -> str:
    """Run a trial of `cluster.trials` as root.

    The import is late, since that module loads the network libraries.
    """
    if os.geteuid() != 0:
        raise HarnessError("only root can try this", next=sudo_command("doctor"))
    from cluster import trials

    line: str = getattr(trials, trial)(*arguments)
    return line


def _with_volumes(trial: str, *arguments: str) -> str:
    """Run a trial that mounts a volume."""
    if current_privileges() == "user namespace":
        raise HarnessError(_NO_VOLUMES, next=_MORE_PRIVILEGES)
    return _as_root(trial, *arguments)


def _write_back() -> str:
    if current_privileges() == "user namespace":
        raise HarnessError("a user namespace cannot hold the kernel's write-back", next=_MORE_PRIVILEGES)
    from cluster.host.writeback import HELD_SETTINGS

    settings = [Path("/proc/sys/vm", name) for name in HELD_SETTINGS]
    refused = [str(path) for path in settings if not os.access(path, os.W_OK)]
    if refused:
        raise HarnessError("the kernel's write-back cannot be held", got=f"not writable: {', '.join(refused)}")
    return "its settings are writable"


def _java() -> str:
    found = java.require_java()
    return f"{found.version} ({found.executable})"


def _maven() -> str:
    path = shutil.which("mvn")
    if path is None:
        raise HarnessError("no mvn on PATH")
    return path


def _docker() -> str:
    from cluster.host.containers import connect

    client = connect()
    try:
        return f"server {client.version()['Version']}"
    finally:
        client.close()


def _user_namespaces() -> str:
    from cluster.privileges import user_namespace

    why_not = user_namespace.why_unavailable()
    if why_not is not None:
        raise HarnessError("the kernel refuses user namespaces", got=why_not, next=user_namespace.remedy())
    return "allowed"


def _cache() -> str:
    """Write in the cache folder, or in the nearest existing folder above it."""
    folder = cache_dir()
    existing = next(path for path in (folder, *folder.parents) if path.exists())
    try:
        with tempfile.TemporaryDirectory(prefix="ebbtide-doctor-", dir=existing):
            pass
    except OSError as error:
        raise HarnessError(f"cannot write in {existing}: {error.strerror}") from None
    return f"{folder} is writable"


def _disk() -> str:
    here = Path.cwd()
    free = shutil.disk_usage(here).free
    if free < FREE_DISK_BYTES:
        raise HarnessError(f"{_gigabytes(free)} free in {here}, {_gigabytes(FREE_DISK_BYTES)} needed")
    return f"{_gigabytes(free)} free in {here}"


def _memory() -> str:
    free = free_memory()
    if free < FREE_MEMORY_BYTES:
        raise HarnessError(f"{_gigabytes(free)} available, {_gigabytes(FREE_MEMORY_BYTES)} needed")
    return f"{_gigabytes(free)} available"


def _gigabytes(count: int) -> str:
    return f"{count / (1 << 30):.1f} GB"


QUESTIONS: tuple[_Question, ...] = (
    # `doctor --json` and the marker `needs` have this name since the first version, as `host.powers` of a manifest.
    _Question(name="privileges", look=_privileges, disables=(EVERY_RUN,), remedy=sudo_command()),
    _Question(
        name="network namespaces",
        look=partial(_as_root, "make_namespace"),
        trial=True,
        disables=(EVERY_RUN,),
        remedy="root with CAP_SYS_ADMIN",
    ),
    _Question(
        name="bridge and nft",
        look=partial(_as_root, "cut_a_link"),
        trial=True,
        disables=(EVERY_RUN,),
        remedy="apt-get install --no-install-recommends nftables",
    ),
    _Question(
        name="bandwidth limits",
        look=partial(_as_root, "limit_a_link"),
        trial=True,
        disables=kinds_needing("bandwidth limits"),
        remedy="modprobe sch_htb sch_tbf cls_u32",
        needed=False,
    ),
    _Question(
        name="wire proxies",
        look=partial(_as_root, "redirect_a_connection"),
        trial=True,
        disables=kinds_needing("wire proxies"),
        remedy="modprobe nft_redir nft_nat",
        needed=False,
    ),
    _Question(
        name="loop mounts",
        look=partial(_with_volumes, "mount_loop"),
        trial=True,
        disables=(VOLUMES, *kinds_needing("loop mounts")),
        remedy="root on a host with /dev/loop-control, and: apt-get install mount e2fsprogs",
        needed=False,
    ),
    _Question(
        name="ext4 shutdown",
        look=partial(_with_volumes, "lose_power", "ext4"),
        trial=True,
        disables=(VOLUMES,),
        remedy="apt-get install --no-install-recommends e2fsprogs",
        needed=False,
    ),
    _Question(
        name="slow volumes",
        look=partial(_with_volumes, "slow_a_disk"),
        trial=True,
        disables=kinds_needing("slow volumes"),
        remedy="root on a host whose kernel can freeze ext4 (FIFREEZE)",
        needed=False,
    ),
    _Question(
        name="xfs shutdown",
        look=partial(_with_volumes, "lose_power", "xfs"),
        trial=True,
        disables=(XFS_POWER_LOSS,),
        remedy="apt-get install --no-install-recommends xfsprogs",
        needed=False,
    ),
    _Question(
        name="write-back hold",
        look=_write_back,
        disables=(VOLUMES,),
        remedy="root on a host whose /proc/sys is writable",
        needed=False,
    ),
    _Question(name="clean host", look=describe_leftovers, needed=False),
    _Question(name="java", look=_java, disables=(EVERY_RUN, "analyze"), remedy=java.INSTALL),
    _Question(name="maven", look=_maven, disables=("kafka fetch",), remedy=maven.INSTALL),
    _Question(
        name="cache folder",
        look=_cache,
        disables=("kafka fetch",),
        remedy="export EBBTIDE_CACHE=FOLDER    (a folder that you may write in)",
        needed=False,
    ),
    _Question(
        name="librdkafka",
        look=librdkafka.describe_librdkafka,
        disables=(LIBRDKAFKA_CLIENTS,),
        remedy=librdkafka.INSTALL,
        needed=False,
    ),
    _Question(
        name="disk space",
        look=_disk,
        disables=("runs recorded in this folder",),
        remedy="run in a folder on a larger disk",
    ),
    _Question(name="memory", look=_memory, disables=(EVERY_RUN,), remedy="end other programs, or use a larger host"),
    _Question(
        name="docker",
        look=_docker,
        disables=("the docker runtime",),
        remedy="apt-get install --no-install-recommends docker.io",
        needed=False,
    ),
    _Question(name="user namespaces", look=_user_namespaces, disables=("runs without root and Docker",), needed=False),
)
