"""Asks the user's Maven for artifacts: a pom goes in, a folder of jars comes out.

Maven's settings, mirrors, proxies and local repository are the user's and stay unchanged. MAVEN_ARGS also works with
a Maven that is too old to know it. Checksums are enforced.
"""

from __future__ import annotations

import os
import re
import shlex
import shutil
import subprocess
from collections.abc import Callable, Sequence
from pathlib import Path
from xml.sax.saxutils import escape

import msgspec

from ebbtide.errors import HarnessError
from ebbtide.java import find_java
from ebbtide.memory import how_ended
from ebbtide.privileges import account_name, current_privileges, home_dir
from ebbtide.scratch import MAVEN, scratch_folder

INSTALL = "apt-get install --no-install-recommends maven default-jre-headless"

# Pinned: the plugin that a bare Maven 3.8 would choose is from 2013.
_COPY_GOAL = "org.apache.maven.plugins:maven-dependency-plugin:3.8.1:copy-dependencies"

FETCH_TIMEOUT_S = 1800.0
"""How long a command waits for another one that fetches into the same cache."""

_POM = """<project xmlns="http://maven.apache.org/POM/4.0.0">
  <modelVersion>4.0.0</modelVersion>
  <groupId>ebbtide</groupId><artifactId>release</artifactId><version>1</version>
  <repositories>{repositories}
  </repositories>
  <dependencies>{dependencies}
  </dependencies>
</project>
"""


_COLOUR = re.compile(r"\x1b\[[0-9;]*m")
"""What a part of Maven's output has even with `style.color=never`."""


class Artifact(msgspec.Struct, frozen=True, kw_only=True):
    """Maven coordinates of a jar."""

    group: str
    name: str
    version: str


class ArtifactMissing(HarnessError):
    """The repository answered, and does not have `artifact` (`group:name:version`)."""

    def __init__(self, artifact: str, log: Path) -> None:
        self.artifact = artifact
        super().__init__("Maven's repository does not have an artifact", got=artifact, where=f"Maven's output: {log}")


def copy_runtime_jars(
    artifacts: Sequence[Artifact],
    into: Path,
    log: Path,
    on_jar: Callable[[int], None] = lambda count: None,
    repository: str | None = None,
) -> None:
    """Copy `artifacts` and everything that they need at run time into a folder.

    `on_jar` is called with the number of jars seen so far. Maven's output goes to `log`. The URL of a `repository` adds
    it to those that Maven's settings name. Raises `ArtifactMissing`, or
    `HarnessError` for every other failure.
    """
    maven = shutil.which("mvn")
    if maven is None:
        raise HarnessError("no Maven on this host; Ebbtide needs it to download Kafka releases", next=INSTALL)
    if find_java() is None:
        raise HarnessError("no Java on this host; Maven and Kafka need it", next=INSTALL)
    environment = dict(os.environ)
    # Java takes the home of /etc/passwd: in a user namespace root's, and `?` for a user without an entry.
    if current_privileges() == "user namespace" or account_name() is None:
        home = home_dir()
        if not re.search(r"\s", str(home)):
            environment["MAVEN_OPTS"] = f"-Duser.home={home} {environment.get('MAVEN_OPTS', '')}".rstrip()
    arguments = shlex.split(environment.pop("MAVEN_ARGS", ""))
    with scratch_folder(MAVEN) as scratch:
        pom = scratch / "pom.xml"
        pom.write_text(_pom(artifacts, repository))
        command = [maven, *arguments, "--batch-mode", "--strict-checksums", "--update-snapshots", f"--file={pom}"]
        command += ["-Dstyle.color=never", _COPY_GOAL, "-DincludeScope=runtime", f"-DoutputDirectory={into}"]
        code, output = _run(command, environment, log, on_jar)
    if code != 0:
        raise _maven_error(code, output, log)


def _pom(artifacts: Sequence[Artifact], repository: str | None) -> str:
    named = (
        "" if repository is None else f"\n    <repository><id>named</id><url>{escape(repository)}</url></repository>"
    )
    template = "\n    <dependency><groupId>{}</groupId><artifactId>{}</artifactId><version>{}</version></dependency>"
    lines = (template.format(a.group, a.name, a.version) for a in artifacts)
    return _POM.format(dependencies="".join(lines), repositories=named)


def _run(
    command: list[str], environment: dict[str, str], log: Path, on_jar: Callable[[int], None]
) -> tuple[int, list[str]]:
    jars: set[str] = set()
    errors: list[str] = []
    process = subprocess.Popen(
        command, env=environment, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT
    )
    assert process.stdout is not None
    try:
        with log.open("wb") as sink:
            for raw in process.stdout:
                sink.write(raw)
                line = _COLOUR.sub("", raw.decode(errors="replace")).rstrip()
                jar = re.search(r"(?:Downloaded from .*/|Copying )([^/\s]+\.jar)\b", line)
                if jar and jar[1] not in jars:
                    jars.add(jar[1])
                    on_jar(len(jars))
                elif line.startswith("[ERROR]") or not line.startswith("[INFO]"):
                    errors.append(line)
        return process.wait(), errors
    finally:
        process.kill()
        process.wait()
        process.stdout.close()


def _maven_error(code: int, output: list[str], log: Path) -> HarnessError:
    """Return the error that says in one sentence what Maven's errors mean."""
    text = "\n".join(output)
    where = f"Maven's output: {log}"
    missing = re.search(r"(?:Could not find artifact|Failure to find) (\S+)", text)
    for pattern, what, next_ in (
        (r"No space left on device|Disk quota exceeded", "no space left on the disk while fetching", "df -h"),
        (r"Checksum validation failed[^\n]*", "a download does not match its checksum, so that nothing was kept", None),
        (r"offline mode", "Maven is set to work offline, and the jars are not in its local repository", None),
        (r"JAVA_HOME[^\n]*", "Maven does not find Java", INSTALL),
    ):
        found = re.search(pattern, text)
        if found:
            return HarnessError(what, where=where, got=found[0], next=next_)
    if missing:
        group, name, *_, version = missing[1].split(":")
        return ArtifactMissing(f"{group}:{name}:{version}", log)
    transfer = re.search(r"(?:Could not transfer|transfer failed for) [^\n]*", text)
    if transfer:
        return HarnessError(
            "no network: Maven could not download from its repository",
            where=where,
            got=re.sub(r"^.*(?:\)|transfer failed for \S+): | -> \[Help.*$", "", transfer[0]),
            next="check the network, the proxy variables and Maven's settings.xml, then try again",
        )
    errors = (line.removeprefix("[ERROR]").strip() for line in output if line.startswith("[ERROR]"))
    return HarnessError("Maven failed", where=where, got=next(filter(None, errors), how_ended(code)))
