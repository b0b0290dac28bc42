"""The Java agent that plants a bug: fetched libraries, compiled once, and the option that loads it into nodes.

Byte Buddy changes the classes, and Eclipse's compiler compiles the sources in `java/` against the release's jars. Both
come from Maven. The jar is kept in the cache, by the digest of its sources.
"""

from __future__ import annotations

import hashlib
import os
import shutil
import subprocess
import tempfile
import zipfile
from collections.abc import Iterable
from pathlib import Path

from bench.broken_kafka.bugs import KAFKA, Bug
from cluster.jars.digests import intact_jars, keep_jars
from cluster.jars.maven import FETCH_TIMEOUT_S, Artifact, copy_runtime_jars
from cluster.jars.releases import jars_of
from ebbtide.errors import HarnessError
from ebbtide.java import require_java
from ebbtide.locks import await_lock
from ebbtide.places import cache_dir

SOURCES = Path(__file__).with_name("java")
MARK = "PLANTED-BUG"
"""What the agent's lines in a node's log begin with."""
CONTROL = "nothing"
"""The name of the control: the agent is loaded, and changes nothing."""

_LIBRARIES = (
    Artifact(group="net.bytebuddy", name="byte-buddy", version="1.17.5"),
    Artifact(group="org.eclipse.jdt", name="ecj", version="3.41.0"),
)
_ARTIFACT = "broken-kafka-1"
_MANIFEST = "Manifest-Version: 1.0\nPremain-Class: broken.Agent\nClass-Path: {}\n\n"
_TIMEOUT_S = 600.0


def argument_of(bug: Bug | None) -> str:
    """Return the agent's argument; None: the control."""
    return CONTROL if bug is None else ":".join((bug.name, bug.agent_class, *bug.hooks))


def environment_of(bug: Bug | None) -> dict[str, str]:
    """Return an environment in which the nodes of a run on the local runtime load the agent."""
    return os.environ | {"JAVA_TOOL_OPTIONS": f"-javaagent:{agent_jar()}={argument_of(bug)}"}


def agent_jar() -> Path:
    """Return the agent's jar; compiles it if its sources have changed. Raises `HarnessError`."""
    root = cache_dir() / "broken-kafka"
    root.mkdir(parents=True, exist_ok=True)
    with await_lock(root / ".lock", purpose="another compilation of the agent to end", timeout_s=FETCH_TIMEOUT_S):
        byte_buddy, compiler = _libraries(root)
        digest = hashlib.sha256(b"\0".join(path.read_bytes() for path in _sources())).hexdigest()[:12]
        jar = root / f"agent-{digest}.jar"
        if not jar.is_file():
            with tempfile.TemporaryDirectory(prefix=".agent-", dir=root) as scratch:
                os.replace(_pack(_compile(Path(scratch), byte_buddy, compiler), byte_buddy), jar)
        return jar


def problems_of(bugs: Iterable[Bug]) -> dict[str, str]:
    """Return what is wrong with the hooks of each bug in the release's classes; `ok`: each matches one method."""
    jars = [agent_jar(), *jars_of(KAFKA)]
    command = [str(require_java().executable), "-cp", os.pathsep.join(map(str, jars)), "broken.Check"]
    lines = _output_of([*command, *map(argument_of, bugs)], "the hooks could not be checked").splitlines()
    return dict(line.split(": ", 1) for line in lines)


def _sources() -> list[Path]:
    return sorted(SOURCES.glob("*.java"))


def _libraries(root: Path) -> tuple[Path, Path]:
    folder = root / "libraries"
    jars = intact_jars(_ARTIFACT, folder)
    if jars is None:
        part = Path(tempfile.mkdtemp(prefix=".fetch-", dir=root))
        try:
            copy_runtime_jars(_LIBRARIES, part, root / ".maven.log")
            jars = keep_jars(_ARTIFACT, part, folder)
        finally:
            shutil.rmtree(part, ignore_errors=True)
    byte_buddy, compiler = (next(jar for jar in jars if jar.name.startswith(one.name)) for one in _LIBRARIES)
    return byte_buddy, compiler


def _compile(scratch: Path, byte_buddy: Path, compiler: Path) -> Path:
    classes = scratch / "classes"
    path = os.pathsep.join(map(str, [*jars_of(KAFKA), byte_buddy]))
    command = [str(require_java().executable), "-jar", str(compiler), "-cp", path, "-d", str(classes)]
    command += ["--release", "17", "-warn:none", *map(str, _sources())]
    _output_of(command, "the agent that plants bugs could not be compiled")
    return classes


def _pack(classes: Path, byte_buddy: Path) -> Path:
    jar = classes.with_suffix(".jar")
    with zipfile.ZipFile(jar, "w") as packed:
        # Relative to the agent's jar.
        packed.writestr("META-INF/MANIFEST.MF", _MANIFEST.format(f"libraries/{byte_buddy.name}"))
        for path in sorted(classes.rglob("*.class")):
            packed.write(path, path.relative_to(classes))
    return jar


def _output_of(command: list[str], what: str) -> str:
    said = subprocess.run(command, capture_output=True, text=True, timeout=_TIMEOUT_S, check=False)
    if said.returncode:
        lines = (said.stdout + said.stderr).strip().splitlines() or ["nothing"]
        raise HarnessError(what, where=str(SOURCES), got=" ".join(lines[:6]))
    return said.stdout
