"""Other Spark masters than this process: separate executors, and a standalone cluster that loses a worker."""

from __future__ import annotations

import signal
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest
from benches import assert_ended_well, run_bench
from reconcile_oracle import anomalies
from records import RecordBuilder, as_record

from analysis.items import on_spark
from analysis.spark.session import session
from bench.reconciling import reconcile
from bench.standalone_spark import SparkDaemon, standalone_cluster

pytestmark = [
    pytest.mark.spark,
    pytest.mark.beside,
    pytest.mark.slow,
    pytest.mark.filterwarnings("ignore:unclosed <socket:ResourceWarning"),
    pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning"),
]


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
        reconcile(spark, as_record(record, anomalous_record().manifest()))
    check_anomalies(record)


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[tuple[str, list[SparkDaemon]]]:
    """A standalone master and two workers on loopback."""
    with standalone_cluster(tmp_path, workers=2) as standing:
        yield standing


def test_a_standalone_cluster_that_loses_a_worker_finds_the_same(
    tmp_path: Path, cluster: tuple[str, list[SparkDaemon]], monkeypatch: pytest.MonkeyPatch
) -> None:
    url, workers = cluster
    record = anomalous_record().write(tmp_path / "run")
    summarize = on_spark.summarize

    def lose_a_worker(*arguments: Any) -> Any:
        """Its blocks that were kept and its shuffle files are gone in the middle of the work."""
        workers[0].kill()
        return summarize(*arguments)

    monkeypatch.setattr(on_spark, "summarize", lose_a_worker)
    with session(url) as spark:
        assert spark.sparkContext.master == url
        reconcile(spark, as_record(record, anomalous_record().manifest()))
    assert workers[0].process.returncode == -signal.SIGKILL
    check_anomalies(record)


def test_one_and_two_workers_are_measured_side_by_side() -> None:
    done = run_bench("spark_workers", "10000", "--rounds", "1")
    assert_ended_well(done)
    assert [line.split("|")[1].strip() for line in done.stdout.splitlines()[-2:]] == ["1", "2"]
