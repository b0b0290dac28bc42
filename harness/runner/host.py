"""Facts of the host and the client libraries, and checks of the runs' folder.

Provides what the clients of a scenario need besides kafka-python, before a run makes anything.
"""

from __future__ import annotations

import contextlib
import errno
import os
import platform
import shutil
import tempfile
from collections.abc import Callable, Iterator
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

import msgspec
import psutil

from cluster.doctor import FREE_DISK_BYTES
from cluster.runtime.java_programs import ensure_compiler
from cluster.runtime.tool_command import ToolCommand
from ebbtide import __version__
from ebbtide.errors import HarnessError, UsageError
from ebbtide.folders import HeldFolder
from ebbtide.librdkafka import require_librdkafka
from ebbtide.ownership import Untrusted, check_trusted, sudo_users
from ebbtide.privileges import current_privileges
from ebbtide.properties_file import is_writable
from ebbtide.record.files import RecordFolder
from ebbtide.record.manifest import MANIFEST, is_record
from ebbtide.scenario.model import Scenario
from ebbtide.untrusted.files import read_file
from ebbtide.untrusted.values import decode_json

_LOADS_AN_AGENT = ("-javaagent", "-agentpath", "-agentlib")

_FULL_BYTES = 8 << 20
_FULL = (errno.ENOSPC, errno.EDQUOT)


def client_versions() -> dict[str, str]:
    """Return the versions of the client libraries and of this harness."""
    versions = {"ebbtide": __version__, "python": platform.python_version()}
    for name in ("kafka-python", "pyarrow"):
        try:
            versions[name] = version(name)
        except PackageNotFoundError:
            versions[name] = "not installed as a distribution"
    with contextlib.suppress(PackageNotFoundError):
        versions["confluent-kafka"] = version("confluent-kafka")
    return versions


def host_facts() -> dict[str, str]:
    """Return the kernel, cores, memory, privileges and the agents that JVMs load, without names and addresses."""
    agents = java_agents(os.environ.get("JAVA_TOOL_OPTIONS", ""))
    return {
        "kernel": platform.release(),
        "system": platform.system(),
        "cores": str(os.cpu_count() or 0),
        "memory_gib": f"{psutil.virtual_memory().total / 2**30:.1f}",
        "powers": current_privileges(),
    } | ({"java_agents": agents} if agents else {})


def java_agents(options: str) -> str:
    """Return the file names of the agents in Java's options; their arguments may be secrets."""
    given = (option.partition(":") for option in options.split())
    return ", ".join(Path(at.partition("=")[0]).name for kind, _, at in given if kind in _LOADS_AN_AGENT)


def require_folder(folder: Path) -> Path:
    """Return `folder`, or its nearest parent that exists.

    Raises `UsageError` if no record can be made in it, and if another user of the host could rename the folder or one
    above it: a link in its place would lead root's files anywhere.
    """
    _check_path(folder.absolute())
    refuse_record(folder, allowed="a folder of records, or a new one")
    existing = next(one for one in (folder.absolute(), *folder.absolute().parents) if os.path.exists(one))
    try:
        with _record_errors(folder, existing):
            check_trusted(existing, may_be_link=True, users=sudo_users())
            tempfile.TemporaryFile(dir=existing).close()
    except Untrusted as error:
        raise UsageError(
            "records cannot be made safely in this folder: another user of this host could put a link in their place",
            where=str(folder),
            got=f"{error.where}: {error.got}",
            allowed="a folder that no other user can write or rename, nor any folder above it",
            next="name another folder with --runs, or take the right to write from the others (chmod go-w)",
        ) from None
    return existing


def refuse_record(folder: Path, *, allowed: str) -> None:
    """Raise `UsageError` for a run record, and for a folder inside one: records would be made in the record."""
    # Not `absolute`: RECORD/../runs is not in the record.
    real = Path(os.path.realpath(folder))
    record = real if is_record(real) else next((one for one in real.parents if _has_record_version(one)), None)
    if record is not None:
        raise UsageError(
            "a run record holds no other records",
            where=str(folder),
            got=f"the run record {record}",
            allowed=allowed,
            next="name another folder",
        )


def _check_path(folder: Path) -> None:
    """Raise `UsageError` for a path that a node's properties cannot name.

    log.dirs is a list, separated by commas.
    """
    if "," in str(folder) or not is_writable(str(folder)):
        raise UsageError(
            "Kafka cannot keep its logs below this folder: log.dirs cannot name it",
            where=repr(str(folder)),
            allowed="a path without commas and control characters",
            next="name another folder for records",
        )


def make_record(record: RecordFolder) -> HeldFolder:
    """Make the folder of a record, and return it held open.

    Raises `UsageError` if it cannot be made, `HarnessError` if space is short.
    """
    _require_space(record.path.parent)
    with _record_errors(record.path.parent):
        record.path.mkdir(parents=True)
        return HeldFolder(record.path)


@contextlib.contextmanager
def _record_errors(folder: Path, existing: Path | None = None) -> Iterator[None]:
    """Turn what the host says into one error; `existing` is the parent that was tried in the folder's place."""
    try:
        yield
    except OSError as error:
        if error.errno in _FULL:
            raise HarnessError(
                "the disk is full", where=str(folder), next="make room, or name another folder"
            ) from None
        raise UsageError(
            "records cannot be made in this folder",
            where=str(folder),
            got=error.strerror if existing in (None, folder.absolute()) else f"{existing}: {error.strerror}",
            allowed="a folder that you can write to",
            next="name another folder for records",
        ) from None


def _require_space(folder: Path) -> None:
    existing = require_folder(folder)
    free = shutil.disk_usage(existing).free
    if free < FREE_DISK_BYTES:
        raise HarnessError(
            "too little free disk space for a run",
            where=str(existing),
            got=f"{free / 2**20:.0f} MiB free",
            allowed=f"{FREE_DISK_BYTES / 2**20:.0f} MiB or more",
            next="free some space, or name another folder with --runs DIR",
        )


def is_disk_full(error: BaseException, folder: Path) -> bool:
    """Whether `error` comes from a full disk.

    The error says so, or the disk is full now. A node or client that died of a full disk reports it in its own
    words, and a volume whose image cannot grow fails with an input/output error.
    """
    if isinstance(error, OSError) and error.errno in _FULL:
        return True
    # The space that the failed run used may be free again by now.
    if os.strerror(errno.ENOSPC) in str(error):
        return True
    return shutil.disk_usage(folder).free < _FULL_BYTES


def librdkafka_users(scenario: Scenario) -> list[str]:
    """Return the places of a scenario's clients that use librdkafka, such as `producers[0]`."""
    producers = [f"producers[{index}]" for index, one in enumerate(scenario.producers) if one.library == "librdkafka"]
    consumers = [f"consumers[{index}]" for index, one in enumerate(scenario.consumers) if one.library == "librdkafka"]
    return producers + consumers


def require_libraries(scenario: Scenario) -> None:
    """Raise `HarnessError` if a client library of the scenario is not installed."""
    users = librdkafka_users(scenario)
    if not users:
        return
    try:
        require_librdkafka()
    except HarnessError as error:
        raise HarnessError(
            f"the scenario has librdkafka clients, and {error.what}",
            where=", ".join(users),
            got=error.got,
            allowed=error.allowed,
            next=error.next,
        ) from None


def java_tools(scenario: Scenario, kafka: str, note: Callable[[str], None]) -> dict[int, ToolCommand]:
    """Return the command of each Java producer by its id; fetches what is missing.

    The client is of the release that the producer names, else of `kafka`. Raises `EbbtideError`.
    """
    releases = {one.id: one.client_kafka or kafka for one in scenario.producers if one.library == "java"}
    tools = {
        release: ensure_compiler(release, lambda event: note(f"Kafka {event.version}: {event.phase}"))
        for release in set(releases.values())
    }
    return {producer: tools[release] for producer, release in releases.items()}


def _has_record_version(folder: Path) -> bool:
    """Whether this folder has a manifest.json of a run record: other tools have files of that name too."""
    with contextlib.suppress(UsageError, msgspec.DecodeError):
        head = decode_json(read_file(folder / MANIFEST, what=MANIFEST), object)
        return isinstance(head, dict) and "record_version" in head
    return False
