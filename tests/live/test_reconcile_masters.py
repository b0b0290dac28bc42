"""Other Spark masters than this process: separate executors, and a standalone cluster that loses a worker."""

from __future__ import annotations

import contextlib
import os
import re
import signal
import subprocess
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pyspark
import pytest
from reconcile_oracle import anomalies
from records import RecordBuilder

from analysis.reconcile import reconcile, reconciling
from analysis.reconcile.session import session
from ebbtide.java import require_java
from ebbtide.waiting import wait_until

pytestmark = [
    pytest.mark.spark,
    pytest.mark.beside,
    pytest.mark.slow,
    pytest.mark.filterwarnings("ignore:unclosed <socket:ResourceWarning"),
    pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning"),
]

HOME = Path(pyspark.__file__).parent
START_S = 60.0


def anomalous_record() -> RecordBuilder:
    """A record with anomalies of several kinds."""
    builder = RecordBuilder()
    for partition in range(4):
        base = partition * 10_000
        builder.acked(*range(base, base + 500), at=0, partition=partition)
        builder.final(*range(base, base + 400), at=0, partition=partition)
        builder.read(*range(base, base + 450), at=0, partition=partition)
    return builder.final(1, None, at=700).read(None, at=701)


def check_anomalies(record: Path) -> None:
    """Compare what was stored with what the rules in plain Python find."""
    builder = anomalous_record()
    expected = anomalies(defaultdict(list, builder.tables), builder.manifest())
    assert {item[0] for item in expected} == {"lost", "vanished", "duplicate", "damaged", "unseen"}
    rows = pq.read_table(record / "anomalies").to_pylist()
    keys = ("kind", "topic", "partition", "offset", "value")
    assert sorted((tuple(row[key] for key in keys) for row in rows), key=repr) == expected


@pytest.fixture(autouse=True)
def _quick_jvms(monkeypatch: pytest.MonkeyPatch) -> None:
    """Executors and daemons compile as little as a session of one machine does."""
    monkeypatch.setenv("JAVA_TOOL_OPTIONS", "-XX:+UseSerialGC -XX:TieredStopAtLevel=1")


def test_executors_of_their_own_find_the_same(tmp_path: Path) -> None:
    record = anomalous_record().write(tmp_path / "run")
    with session("local-cluster[2,1,1024]") as spark:
        assert spark.sparkContext.master.startswith("local-cluster")
        reconcile(spark, record, anomalous_record().manifest())
    check_anomalies(record)


class Daemon:
    """A Spark daemon as a child process, with what it says in a file."""

    def __init__(self, folder: Path, name: str, main: str, *arguments: str) -> None:
        self._said = folder / f"{name}.log"
        command = [str(require_java().executable), "-Xmx256m", "-cp", f"{HOME}/jars/*", main, *arguments]
        # A worker starts executors only if it knows its Scala, which Spark's own start scripts would tell it.
        environment = os.environ | {
            "SPARK_HOME": str(HOME),
            "SPARK_LOCAL_IP": "127.0.0.1",
            "SPARK_SCALA_VERSION": "2.13",
        }
        with self._said.open("wb") as said:
            self.process = subprocess.Popen(
                command, stdout=said, stderr=said, cwd=folder, env=environment, start_new_session=True
            )

    def first_match(self, pattern: str) -> str | None:
        found = re.search(pattern, self._said.read_text(errors="replace"))
        return found.group(1) if found else None

    def await_said(self, pattern: str) -> str:
        return wait_until(
            lambda: self.first_match(pattern), awaited=f"{self._said.name} says {pattern}", timeout_s=START_S
        )

    def kill(self) -> None:
        """SIGKILL to the daemon and its executors, which are of its process group."""
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self.process.pid, signal.SIGKILL)
        self.process.wait()


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[tuple[str, list[Daemon]]]:
    """A standalone master and two workers on loopback."""
    daemons: list[Daemon] = []
    try:
        main = "org.apache.spark.deploy"
        daemons.append(
            Daemon(
                tmp_path, "master", f"{main}.master.Master", "--host", "127.0.0.1", "--port", "0", "--webui-port", "0"
            )
        )
        url = daemons[0].await_said(r"Starting Spark master at (spark://\S+)")
        for number in (1, 2):
            options = ("--host", "127.0.0.1", "--cores", "1", "--memory", "1200m", "--webui-port", "0")
            folder = ("--work-dir", str(tmp_path / f"work-{number}"))
            daemons.append(Daemon(tmp_path, f"worker-{number}", f"{main}.worker.Worker", *options, *folder, url))
        for worker in daemons[1:]:
            worker.await_said(r"(Successfully registered with master)")
        yield url, daemons[1:]
    finally:
        for daemon in reversed(daemons):
            daemon.kill()


def test_a_standalone_cluster_that_loses_a_worker_finds_the_same(
    tmp_path: Path, cluster: tuple[str, list[Daemon]], monkeypatch: pytest.MonkeyPatch
) -> None:
    url, workers = cluster
    record = anomalous_record().write(tmp_path / "run")
    summarize = reconciling.summarize

    def lose_a_worker(*arguments: Any) -> Any:
        """Its blocks that were kept and its shuffle files are gone in the middle of the work."""
        workers[0].kill()
        return summarize(*arguments)

    monkeypatch.setattr(reconciling, "summarize", lose_a_worker)
    with session(url) as spark:
        assert spark.sparkContext.master == url
        reconcile(spark, record, anomalous_record().manifest())
    assert workers[0].process.returncode == -signal.SIGKILL
    check_anomalies(record)
