"""Starts Kafka's JVMs, with a class archive that halves the CPU time of a start.

A node spends most of its start loading and verifying the same 9,000 classes. A class-data-sharing archive (JEP 350),
made once for each release and Java, keeps them ready. Figures are in docs/decisions/jvm-start.md.
"""

from __future__ import annotations

import gzip
import hashlib
import os
import re
import shutil
import signal
import socket
import tempfile
from collections.abc import Sequence
from pathlib import Path

import msgspec

from cluster.host.children import Child, start_child
from cluster.host.ledger import Ledger
from cluster.jars.releases import LOG_OPTIONS, jars_of
from cluster.runtime.properties import TOOL as STORAGE_TOOL
from cluster.runtime.properties import cluster_id, format_arguments
from ebbtide.errors import HarnessError, NodeEnded
from ebbtide.java import Java, require_java
from ebbtide.locks import await_lock
from ebbtide.memory import how_ended
from ebbtide.properties_file import render
from ebbtide.record.files import log_command
from ebbtide.waiting import wait_until


class KnownEnd(msgspec.Struct, frozen=True, kw_only=True):
    """A finding by the name of its page, and what a log says at such an end and at no other."""

    finding: str
    says: re.Pattern[str]

    @property
    def page(self) -> str:
        """The path of the page."""
        return f"docs/findings/{self.finding}.md"


KNOWN_ENDS: tuple[KnownEnd, ...] = (
    KnownEnd(
        finding="empty-metadata-log",
        # A node without any voter: others may be unattached, too, but they know other voters.
        says=re.compile(r"IllegalStateException: Expected to be Follower, but .* Unattached(State)?\(.*\bvoters=\[\]"),
    ),
)


def known_end_clause(log: str) -> str:
    """Return the finding and its page, as the end of a sentence about a node that ended; empty if none is known."""
    found = next((one for one in KNOWN_ENDS if one.says.search(log)), None)
    return "" if found is None else f", a known finding: {found.finding} ({found.page})"


_SAYS_FATAL = re.compile(r"Encountered fatal fault: .*(\n(?!\s*\d{4}-).*)?")
"""`ProcessTerminatingFaultHandler` (3.3 to 4.4), with the exception on the next line."""
_OF_THE_HOST = re.compile(r"OutOfMemoryError|IOException|KafkaStorageException|Too many open files")


def fatal_fault_in(log: str) -> str | None:
    """Return the fault by which Kafka ended its process, in one line; None: the log has none, or the host caused it."""
    found = _SAYS_FATAL.search(log)
    if found is None or _OF_THE_HOST.search(log[found.start() :]) or ended_on_full_volume(log):
        return None
    return " ".join(found[0].removeprefix("Encountered fatal fault: ").split())


_SAYS_FULL = re.compile(r"No space left on device|Disk quota exceeded")


def ended_on_full_volume(log: str) -> bool:
    """Whether the last lines of a node's log say that it could not write for lack of space."""
    return _SAYS_FULL.search(log) is not None


SERVER = "kafka.Kafka"
HEAP_MB = 256
TOOL_HEAP_MB = 96

CLEAN_EXIT_CODES = (0, 128 + signal.SIGTERM)
"""The exit codes of a JVM after SIGTERM: 143 once its shutdown hooks have run."""

_OPTIONS = (
    # One or two cores and small heaps: parallel collectors and the optimising compiler cost more than they give.
    "-XX:+UseSerialGC",
    "-XX:TieredStopAtLevel=1",
    "-Xshare:auto",
    # No memory-mapped statistics file in /tmp: it outlives a SIGKILL.
    "-XX:-UsePerfData",
    "-Djava.awt.headless=true",
    # Namespaces have no IPv6.
    "-Djava.net.preferIPv4Stack=true",
)

_TRAIN_TIMEOUT_S = 120.0
_ARCHIVE_TIMEOUT_S = 3 * _TRAIN_TIMEOUT_S
"""How long a start waits for another process that makes the same archive."""


class JavaProgram(msgspec.Struct, frozen=True, kw_only=True):
    """A class with a `main`, its arguments, and the options of the JVM that runs it; `jars` besides the release's."""

    main: str
    arguments: tuple[str, ...]
    heap_mb: int = HEAP_MB
    options: tuple[str, ...] = ()
    jars: tuple[Path, ...] = ()


class Installation(msgspec.Struct, frozen=True, kw_only=True):
    """A Kafka release and the Java that runs it.

    `folder` is where data derived from both may be kept.
    """

    kafka: str
    jars: tuple[Path, ...]
    folder: Path
    java: Java

    def archive(self) -> Path:
        """Return the path of the class archive of this release and Java, existing or not.

        The JVM checks the rest (its own build, each jar's time and size) and ignores an archive that does not fit.
        """
        key = hashlib.sha256(f"{self.java.version}\0{self.class_path()}".encode()).hexdigest()[:12]
        return self.folder / f"classes-{self.java.version}-{key}.jsa"

    def class_path(self) -> str:
        """Return the jars in a fixed order: an archive is valid for one order only."""
        return ":".join(str(jar) for jar in self.jars)


def installation_of(kafka: str) -> Installation:
    """Return the fetched release `kafka` with this host's Java.

    Raises `HarnessError` when either is missing.
    """
    jars = jars_of(kafka)
    return Installation(kafka=kafka, jars=tuple(jars), folder=jars[0].parent.parent, java=require_java())


def java_command(
    installation: Installation,
    main: str,
    arguments: Sequence[str],
    *,
    heap_mb: int = HEAP_MB,
    options: Sequence[str] = (),
    jars: Sequence[Path] = (),
) -> list[str]:
    """Return the command that runs class `main`, with a class archive if one exists.

    `jars` come behind those of the release: the archive is valid for a class path that begins with these.
    """
    archive = installation.archive()
    return [
        str(installation.java.executable),
        *jvm_options(heap_mb, archive if archive.is_file() else None),
        *options,
        "-cp",
        os.pathsep.join([installation.class_path(), *map(str, jars)]),
        main,
        *arguments,
    ]


def jvm_options(heap_mb: int, archive: Path | None) -> list[str]:
    """Return the options of every JVM of Kafka's on every runtime.

    `archive` is its class archive.
    """
    shared = [f"-XX:SharedArchiveFile={archive}"] if archive is not None else []
    return [f"-Xmx{heap_mb}m", *_OPTIONS, *shared, *LOG_OPTIONS]


def ensure_class_archive(installation: Installation) -> Path:
    """Return the class archive; makes it when it is missing (5 to 10 s).

    It is made by starting and stopping one node, which needs no root and listens on loopback. The file is renamed
    into place when complete, so that a start never finds half of it. Raises `HarnessError` when the node does not
    start or leaves no archive.
    """
    archive = installation.archive()
    with await_lock(archive.with_suffix(".lock"), purpose="the class archive of Kafka", timeout_s=_ARCHIVE_TIMEOUT_S):
        if not archive.is_file():
            with tempfile.TemporaryDirectory(prefix=".classes-", dir=installation.folder) as scratch:
                os.replace(_train(installation, Path(scratch)), archive)
    return archive


def _train(installation: Installation, scratch: Path) -> Path:
    log, made = scratch / "node.log", scratch / "classes.jsa"
    properties = scratch / "server.properties"
    properties.write_text(render(_training_properties(scratch)), "ascii")
    run = f"class-archive-{os.getpid()}"
    with Ledger.open(run, scratch) as ledger:
        cluster = cluster_id(run)
        arguments = format_arguments(installation.kafka, cluster, str(properties), {})
        formatting = java_command(installation, STORAGE_TOOL, arguments, heap_mb=TOOL_HEAP_MB)
        status = start_child(ledger, formatting, name="format", output=log).wait(_TRAIN_TIMEOUT_S)
        if status != 0:
            raise _training_error("could not be formatted", status, log)
        command = java_command(installation, SERVER, [str(properties)], options=[f"-XX:ArchiveClassesAtExit={made}"])
        node = start_child(ledger, command, name="training node", output=log)
        try:
            _wait_started(node, log)
            node.send(signal.SIGTERM)
            node.wait(_TRAIN_TIMEOUT_S)
        finally:
            node.kill()
    if not made.is_file():
        raise _training_error("left no archive", node.exit_status(), log)
    return made


def _wait_started(node: Child, log: Path) -> None:
    def has_started() -> bool:
        if node.exit_status() is not None:
            raise _training_error("ended", node.exit_status(), log)
        return b"Kafka Server started" in log.read_bytes()

    wait_until(has_started, awaited="a node to start", timeout_s=_TRAIN_TIMEOUT_S, last_seen=lambda: tail_of(log))


def _training_error(what: str, status: int | None, log: Path) -> HarnessError:
    return end_error("the node that the class archive is made from", what, status, log, kept=False)


def _training_properties(scratch: Path) -> dict[str, str]:
    """Return the properties of a node that is broker and controller at once.

    It loads the classes of both.
    """
    with socket.create_server(("127.0.0.1", 0)) as first, socket.create_server(("127.0.0.1", 0)) as second:
        broker, controller = first.getsockname()[1], second.getsockname()[1]
    return {
        "process.roles": "broker,controller",
        "node.id": "1",
        "controller.listener.names": "CONTROLLER",
        "controller.quorum.voters": f"1@127.0.0.1:{controller}",
        "listeners": f"PLAINTEXT://127.0.0.1:{broker},CONTROLLER://127.0.0.1:{controller}",
        "advertised.listeners": f"PLAINTEXT://127.0.0.1:{broker}",
        "log.dirs": str(scratch / "data"),
    }


def end_error(who: str, what: str, status: int | None, log: Path, *, kept: bool = True) -> HarnessError:
    """Return the error for a JVM that ended too early, with the end of its log and the finding that explains it.

    `kept`: the log stays, so that the error names it.
    """
    tail, last = tail_of(log), tail_of(log, LINES_OF_AN_END)
    said = f"{who} {what} ({how_ended(status)}){known_end_clause(last)}"
    where, next = (str(log.parent), log_command(log)) if kept else (None, None)
    fault = fatal_fault_in(last) if status is not None and status >= 0 else None
    if fault is not None:
        return NodeEnded(said, node=who, fault=fault, where=where, got=tail, next=next)
    return HarnessError(said, where=where, got=tail, next=next)


LINES_OF_AN_END = 400
"""Among so many last lines of a log is what says why its process ended; Kafka logs its shutdown after it."""


def tail_of(log: Path, lines: int = 12) -> str:
    """Return the last lines of a log, without the listing of configuration values.

    `(empty)` without lines, `(no log)` without the file.
    """
    try:
        with log.open("rb") as file:
            file.seek(max(0, file.seek(0, os.SEEK_END) - 65536))
            text = file.read().decode(errors="replace")
    except OSError:
        return "(no log)"
    kept = [line for line in text.splitlines() if (line.strip() and not line.startswith("\t")) or "Exception" in line]
    return "\n           ".join(kept[-lines:]) or "(empty)"


def compress(log: Path) -> None:
    """Replace a log by `<name>.log.gz`, to which it is added."""
    with log.open("rb") as plain, gzip.open(f"{log}.gz", "ab", compresslevel=6) as packed:
        shutil.copyfileobj(plain, packed)
    log.unlink()
