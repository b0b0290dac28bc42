"""Starts the Java process of a Spark session.

Spark's own scripts start a shell and a JVM that put the command together, and then a program that
starts the one that is wanted. Where nobody gave Spark or Hadoop settings of their own, the command
is always the same, so it is started at once; that takes 1 s less.
"""

from __future__ import annotations

import contextlib
import os
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from importlib.util import find_spec
from pathlib import Path

from analysis.spark.class_archive import class_archive
from analysis.spark.heap import heap_mib
from ebbtide.errors import HarnessError
from ebbtide.java import require_java
from ebbtide.parent_death import start_tied
from ebbtide.privileges import account_name
from ebbtide.properties_file import render
from ebbtide.scratch import ScratchFolder, java_scratch_flag
from ebbtide.signals import defer_signals

LOCAL_MASTER = "local[2]"

QUICK = "-XX:TieredStopAtLevel=1"
"""The flag for the quick compiler alone, which suits a few records: Spark gets only their chosen rows."""
_LATE = " ".join(
    f"-XX:Tier4{name}Threshold={at}"
    for name, at in (("Invocation", 50_000), ("MinInvocation", 6_000), ("Compile", 150_000), ("BackEdge", 400_000))
)
"""Flags for both compilers, of which the slow one begins at ten times its defaults.

It compiles only the loops over rows and the planning code that dozens of records share.
"""
SETTINGS_OF_OTHERS = (
    *("SPARK_CONF_DIR", "HADOOP_CONF_DIR", "YARN_CONF_DIR"),
    *("SPARK_DIST_CLASSPATH", "SPARK_SUBMIT_OPTS", "PYSPARK_SUBMIT_ARGS"),
)
"""The environment variables with settings that only Spark's scripts read."""
START_FLAGS = "-XX:+UseSerialGC -XX:-UsePerfData -Xshare:auto"
_MACHINE_LEARNING = "spark-mllib_"
_GATEWAY_SERVER = "org.apache.spark.api.python.PythonGatewayServer"
_OPENED = (
    *("lang", "lang.invoke", "lang.reflect", "io", "net", "nio"),
    *("util", "util.concurrent", "util.concurrent.atomic"),
)
_OPENED_PACKAGES = (
    *(f"java.base/java.{name}" for name in _OPENED),
    *(f"java.base/{name}" for name in ("jdk.internal.ref", "sun.nio.ch", "sun.nio.cs")),
    *(f"java.base/sun.{name}" for name in ("security.action", "util.calendar")),
    "java.security.jgss/sun.security.krb5",
)
"""The packages of Java that Spark needs opened (JavaModuleOptions of Spark's launcher)."""
_OPTIONS = (
    *(f"--add-opens={package}=ALL-UNNAMED" for package in _OPENED_PACKAGES),
    "-Djdk.reflect.useDirectMethodHandle=false",
    "-Dio.netty.tryReflectionSetAccessible=true",
)
_LOGGING = {
    "status": "off",
    "rootLogger.level": "error",
    "rootLogger.appenderRef.stderr.ref": "stderr",
    "appender.stderr.type": "Console",
    "appender.stderr.name": "stderr",
    "appender.stderr.target": "SYSTEM_ERR",
    "appender.stderr.layout.type": "PatternLayout",
    "appender.stderr.layout.pattern": "%d %p %c: %m%n%ex",
}


class JavaStart:
    """What a Java process of Spark starts with; `close` kills the process and removes its scratch folder.

    - `is_direct`: `launch` starts the process; otherwise Spark's scripts do.
    - `said`: the file with what the process prints to stderr.

    Raises `HarnessError` when there is no Java 17 or newer, or Spark's scripts would fail for this user.
    """

    def __init__(self, master: str, *, many: bool = False, jars: Sequence[Path] = ()) -> None:
        """`many` and `jars` are as in `session`."""
        self.java = require_java()
        self.heap_mib = heap_mib()
        self.is_direct = is_local(master) and not jars and not has_settings_of_others(spark_home())
        if not self.is_direct:
            check_account_for_scripts()
        self._class_path = _class_path(is_direct=self.is_direct)
        self._scratch = ScratchFolder()
        self.scratch = self._scratch.path
        # Executors elsewhere do not see the made record that completes an archive, and a session with more jars reads
        # a topic once.
        writes = is_local(master) and not jars
        self.archive = class_archive(self.java, self._class_path, self.scratch, writes=writes)
        self.said = self.scratch / "stderr.log"
        self.connection_file = self.scratch / "gateway"
        self.process: subprocess.Popen[bytes] | None = None
        self.flags = [
            *f"{START_FLAGS} {_LATE if many else QUICK} {self.archive.flags}".split(),
            java_scratch_flag(self.scratch),
            f"-Dlog4j2.configurationFile=file:{self.scratch}/log4j2.properties",
        ]

    def launch(self) -> None:
        """Write the settings that the process reads and, if it starts directly, start it."""
        (self.scratch / "log4j2.properties").write_text(render(_LOGGING), "ascii")
        if not self.is_direct:
            return
        home = spark_home()
        with self.said.open("wb") as stderr:
            # Otherwise the JVM of a killed judge would keep its memory for minutes.
            self.process = start_tied(
                [str(self.java.executable), f"-Xmx{self.heap_mib}m", *self.flags, *_OPTIONS, _GATEWAY_SERVER],
                stdin=subprocess.PIPE,
                stdout=subprocess.DEVNULL,
                stderr=stderr,
                # In a session of its own: Ctrl-C and a closed terminal reach only this process, which then decides.
                start_new_session=True,
                env=os.environ
                | {
                    "CLASSPATH": self._class_path,  # 280 jars, which lists of processes need not show
                    "SPARK_HOME": str(home),
                    "SPARK_LOCAL_IP": "127.0.0.1",
                    "_PYSPARK_DRIVER_CONN_INFO_PATH": str(self.connection_file),
                },
            )

    def read_said(self) -> str:
        """Return what the process has printed to stderr."""
        with contextlib.suppress(OSError):
            return self.said.read_text(errors="replace")
        return ""

    def close(self) -> None:
        """Kill the process if it still runs, and remove the scratch folder; a second call does nothing."""
        if self.process is not None and self.process.poll() is None:
            self.process.kill()
            self.process.wait()
        if self.process is not None and self.process.stdin is not None:
            self.process.stdin.close()
        self._scratch.remove()


@contextmanager
def early_start(*, many: bool = False) -> Iterator[JavaStart | None]:
    """Launch the Java process of a session for the block, which imports PySpark meanwhile.

    None where there is nothing to gain, and where the start fails: the session's own start then says why.
    """
    start = None
    try:
        if "pyspark" not in sys.modules:
            with contextlib.suppress(Exception), defer_signals():
                start = JavaStart(LOCAL_MASTER, many=many)
                start.launch()
        yield start if start is not None and start.process is not None else None
    finally:
        if start is not None:
            start.close()


def is_first_session(master: str | None = None) -> bool:
    """Return whether this host's next session is its first one.

    A first session takes longer, because it writes its class archive.
    """
    if not is_local(master or LOCAL_MASTER):
        return False
    with contextlib.suppress(HarnessError):  # starting the session reports it
        is_direct = not has_settings_of_others(spark_home())
        return class_archive(require_java(), _class_path(is_direct=is_direct), Path()).part is not None
    return False


def spark_home() -> Path:
    """Return the folder of Spark: that of its Python package, which this does not import.

    Environments that link the same package share its class archive.
    """
    found = find_spec("pyspark")
    assert found is not None
    assert found.origin is not None
    return Path(found.origin).resolve().parent


def is_local(master: str) -> bool:
    """Return whether a Spark master is this host, without processes for the executors."""
    return master == "local" or master.startswith("local[")


def has_settings_of_others(home: Path) -> bool:
    """Return whether somebody gave Spark or Hadoop settings, which Spark's scripts must read."""
    return (home / "conf").is_dir() or any(os.environ.get(name) for name in SETTINGS_OF_OTHERS)


def _class_path(*, is_direct: bool) -> str:
    """Return what distinguishes the class paths of JVMs that are started directly and by Spark's scripts."""
    return class_path(spark_home()) if is_direct else str(spark_home() / "jars")


def class_path(spark_home: Path) -> str:
    """Return Spark's jars for a JVM that is started directly, with two differences.

    - Spark's own jars come first. Spark reads the code of a class for each step of a plan, and Java looks for it in one
      jar after the other.
    - Spark's machine learning is left out. Each session that finds it gets its SQL functions, which nobody uses here.
      Registering them takes as long as the rest of the session's start.
    """
    jars = [jar for jar in (spark_home / "jars").glob("*.jar") if not jar.name.startswith(_MACHINE_LEARNING)]
    return os.pathsep.join(map(str, sorted(jars, key=lambda jar: (not jar.name.startswith("spark-"), jar.name))))


def check_account_for_scripts() -> None:
    """Raise `HarnessError` if Spark's scripts would fail because the host has no name for this user."""
    if account_name() is None:
        raise HarnessError(
            "Spark's own scripts need a user with an entry in /etc/passwd",
            where=f"user {os.geteuid()}",
            got="no entry",
            next=f"as root: echo 'ebbtide:x:{os.geteuid()}:{os.getegid()}::/tmp:/bin/sh' >> /etc/passwd    "
            "(or use neither --master nor variables such as SPARK_CONF_DIR)",
        )
