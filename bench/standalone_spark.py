"""Starts standalone Spark clusters on loopback, for a bench and for tests."""

from __future__ import annotations

import contextlib
import os
import re
import signal
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pyspark

from ebbtide.java import require_java
from ebbtide.waiting import wait_until

START_S = 60.0
_HOME = Path(pyspark.__file__).parent
_MAIN = "org.apache.spark.deploy"


class SparkDaemon:
    """A Spark daemon as a child process, with its output in a file."""

    def __init__(self, folder: Path, name: str, main: str, *arguments: str) -> None:
        self._output = folder / f"{name}.log"
        command = [str(require_java().executable), "-Xmx256m", "-cp", f"{_HOME}/jars/*", main, *arguments]
        # A worker starts executors only if it knows its Scala, which Spark's own start scripts would give it.
        environment = os.environ | {
            "SPARK_HOME": str(_HOME),
            "SPARK_LOCAL_IP": "127.0.0.1",
            "SPARK_SCALA_VERSION": "2.13",
        }
        with self._output.open("wb") as output:
            self.process = subprocess.Popen(
                command, stdout=output, stderr=output, cwd=folder, env=environment, start_new_session=True
            )

    def await_line(self, pattern: str) -> str:
        """Return the first group of the first match in the output; waits for it."""
        return wait_until(
            lambda: self._first_match(pattern), awaited=f"{self._output.name} has {pattern}", timeout_s=START_S
        )

    def _first_match(self, pattern: str) -> str | None:
        found = re.search(pattern, self._output.read_text(errors="replace"))
        return found.group(1) if found else None

    def kill(self) -> None:
        """Send SIGKILL to the daemon and its executors, which are of its process group."""
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self.process.pid, signal.SIGKILL)
        self.process.wait()


@contextmanager
def standalone_cluster(folder: Path, *, workers: int, memory: str = "1200m") -> Iterator[tuple[str, list[SparkDaemon]]]:
    """Yield the URL of a standalone master, and its workers of one core each, all on loopback.

    `folder` gets their output and their work; `memory` is that of one worker, as Spark writes it. All end with the
    block.
    """
    daemons: list[SparkDaemon] = []
    local = ("--host", "127.0.0.1", "--webui-port", "0")
    try:
        daemons.append(SparkDaemon(folder, "master", f"{_MAIN}.master.Master", *local, "--port", "0"))
        url = daemons[0].await_line(r"Starting Spark master at (spark://\S+)")
        for number in range(1, workers + 1):
            options = ("--cores", "1", "--memory", memory, "--work-dir", str(folder / f"work-{number}"))
            daemons.append(SparkDaemon(folder, f"worker-{number}", f"{_MAIN}.worker.Worker", *local, *options, url))
        for worker in daemons[1:]:
            worker.await_line(r"(Successfully registered with master)")
        yield url, daemons[1:]
    finally:
        for daemon in reversed(daemons):
            daemon.kill()
