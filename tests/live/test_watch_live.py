"""A cluster of plain Kafka processes, watched by Ebbtide while the test breaks it by process id."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from checkout import ROOT
from host_turn import HOST
from live import in_process
from live.commands import command, ebbtide
from live.foreign_cluster import ForeignCluster, foreign_cluster
from rich.console import Console

from cluster.kafka_api.connection import BrokerConnection
from ebbtide.errors import EbbtideError, HarnessError
from ebbtide.kraft.follower import MetadataFollower
from ebbtide.kraft.records import MetadataRecord
from ebbtide.logs.segments import METADATA_FOLDER
from ebbtide.record.files import RecordFolder
from ebbtide.record.manifest import read_manifest
from ebbtide.record.steps import read_steps
from ebbtide.waiting import pause, wait_until
from harness.runner.display import PlainDisplay
from harness.watch.marks import say, watch_going_on
from harness.watch.watching import WatchRequest, watch_cluster

if TYPE_CHECKING:
    from analysis.items.on_spark import Spark

pytestmark = pytest.mark.live

KAFKA = "4.3.1"
OTHERS = "somebody-elses"


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ForeignCluster]:
    """One controller and three brokers, with a topic that is not Ebbtide's."""
    with HOST.held(), foreign_cluster(tmp_path_factory.mktemp("foreign"), KAFKA) as made:
        with connection_to(made, 1) as broker:
            broker.create_topic(OTHERS, [[1, 2, 3]], {})
        yield made


def connection_to(cluster: ForeignCluster, broker: int) -> BrokerConnection:
    return BrokerConnection(cluster.address(broker), connect_timeout_s=2, request_timeout_s=5)


def leader_of(cluster: ForeignCluster, topic: str) -> int:
    with connection_to(cluster, 1) as broker:
        return broker.metadata([topic]).partitions[topic, 0].leader


def topics_left(cluster: ForeignCluster, *topics: str) -> list[str]:
    with connection_to(cluster, 1) as broker:
        return [topic for topic, _ in broker.metadata(list(topics)).partitions]


def await_deletion(cluster: ForeignCluster, topic: str) -> None:
    """A broker learns from the metadata log that a topic is gone, after the controller answered."""
    wait_until(lambda: not topics_left(cluster, topic), awaited=f"the topic {topic} to be gone", timeout_s=10)


def watch_while(cluster: ForeignCluster, runs: Path, act: Callable[[Path], None]) -> Path:
    """Watch until `act` has broken the cluster; returns the record."""
    failures: list[BaseException] = []

    def breaking() -> None:
        try:
            record = wait_until(lambda: _watching(runs), awaited="a watch", timeout_s=60)
            act(record)
            say(RecordFolder(record), None)
        except BaseException as error:
            failures.append(error)

    thread = threading.Thread(target=breaking)
    thread.start()
    request = WatchRequest(
        bootstrap=(cluster.address(1),), controllers=tuple(cluster.controllers.split(",")), duration_s=120, runs=runs
    )
    record = watch_cluster(request, PlainDisplay(Console(quiet=True)))
    thread.join()
    assert not failures, failures
    return record


def _watching(runs: Path) -> RecordFolder | None:
    """Return the record of the watch once its clients send."""
    try:
        record = watch_going_on(runs).path
    except EbbtideError:
        return None
    return record if list((record / "journal").glob("producer-1.journal*")) else None


@pytest.mark.spark
def test_a_killed_leader_loses_nothing_and_the_record_has_marks_elections_and_replicas(
    cluster: ForeignCluster, tmp_path: Path, spark_if_needed: Spark
) -> None:
    def kill_leader(record: Path) -> None:
        pause(3)
        (topic,) = read_manifest(RecordFolder(record)).topics
        leader = leader_of(cluster, topic)
        say(RecordFolder(record), f"killed broker {leader}")
        cluster.kill(leader)
        pause(5)
        cluster.start(leader)
        wait_until(lambda: cluster.registered() == {1, 2, 3}, awaited="the broker", timeout_s=60)

    record = watch_while(cluster, tmp_path, kill_leader)
    manifest = read_manifest(RecordFolder(record))
    (topic,) = manifest.topics
    assert manifest.status == "complete"
    assert manifest.runtime == "foreign"
    assert manifest.watch is not None
    assert manifest.watch.why_log_ends is None
    await_deletion(cluster, topic)
    assert topics_left(cluster, OTHERS) == [OTHERS]
    (mark,) = read_steps(RecordFolder(record)) or ()
    assert str(mark.whom).startswith("killed broker")
    names = names_in_the_log(record)
    assert topic in names
    assert OTHERS not in names
    assert {path.stem for path in (record / "replicas").iterdir()} == {"broker-1", "broker-2", "broker-3"}
    ((_, verdict),) = in_process.judge([record], spark_if_needed)
    assert verdict.outcome == "as-predicted", verdict.why
    assert verdict.counts.acked > 50
    assert not verdict.losses


def names_in_the_log(record: Path) -> set[str]:
    """The names of topics in the record's copy of the metadata log."""
    (folder,) = (record / "raw").glob(f"controller-*/{METADATA_FOLDER}")
    items = MetadataFollower(folder).poll()
    return {str(one.fields["name"]) for one in items if isinstance(one, MetadataRecord) and one.name == "TopicRecord"}


@pytest.mark.parametrize("number", [signal.SIGKILL, pytest.param(signal.SIGINT, marks=pytest.mark.slow)])
def test_a_watch_that_is_ended_early_leaves_no_topic(
    cluster: ForeignCluster, tmp_path: Path, number: signal.Signals
) -> None:
    words = command("watch", "--bootstrap", cluster.address(1), "--for", "2m", "--runs", tmp_path)
    with subprocess.Popen(words, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True) as process:
        record = wait_until(lambda: _watching(tmp_path), awaited="a watch", timeout_s=60)
        (topic,) = read_manifest(RecordFolder(record)).topics
        assert topics_left(cluster, topic) == [topic]
        os.kill(process.pid, number)
        process.wait(60)
    if number == signal.SIGKILL:
        assert f"topic {topic}" in ebbtide("clean").stdout
        judged = ebbtide("analyze", record)
        assert judged.returncode == 2, judged.stdout + judged.stderr
        assert "the run did not complete: interrupted" in judged.stdout
    else:
        assert process.returncode == 3
    await_deletion(cluster, topic)


MINE = """
import os

import pytest
from live.foreign_cluster import foreign_cluster

from ebbtide.waiting import pause, wait_until


@pytest.fixture
def cluster(tmp_path):
    with foreign_cluster(tmp_path / "nodes", "4.3.1") as made:
        yield made


def restart(cluster, *brokers):
    for broker in brokers:
        cluster.start(broker)
    wait_until(cluster.is_whole, awaited="brokers", timeout_s=60)


def test_a_killed_broker_loses_nothing(cluster, kafka_watch):
    watch = kafka_watch(cluster.bootstrap, controllers=cluster.controllers)
    pause(3)
    watch.mark("killed broker 1")
    cluster.kill(1)
    pause(4)
    restart(cluster, 1)


def test_logs_that_are_cut_lose_records(cluster, kafka_watch):
    kafka_watch(cluster.bootstrap, controllers=cluster.controllers)
    pause(4)
    cluster.kill(1, 2, 3)
    for broker in (1, 2, 3):
        for path in cluster.data(broker).glob("ebbtide-watch-*/*.log"):
            os.truncate(path, path.stat().st_size // 2)
    restart(cluster, 1, 2, 3)
"""


@pytest.mark.slow
def test_a_test_of_ones_own_watches_the_cluster_that_it_brought_up(tmp_path: Path) -> None:
    (tmp_path / "test_mine.py").write_text(MINE)
    path = os.pathsep.join(str(ROOT / folder) for folder in ("", "tests", "tests/support"))
    with HOST.held():
        done = subprocess.run(
            [sys.executable, "-m", "pytest", "-p", "no:cacheprovider", "-q", "test_mine.py"],
            cwd=tmp_path,
            env={**os.environ, "PYTHONPATH": path},
            capture_output=True,
            text=True,
            timeout=300,
            check=False,
        )
    assert done.returncode == 1, done.stdout + done.stderr
    assert "test_logs_that_are_cut_lose_records" in done.stdout
    assert "1 passed" in done.stdout
    assert "committed" in done.stdout


@pytest.mark.slow
def test_a_watch_whose_folder_is_renamed_writes_nothing_to_its_old_path(
    cluster: ForeignCluster, tmp_path: Path
) -> None:
    def swap(record: Path) -> None:
        record.rename(tmp_path / "renamed")
        (tmp_path / "other").mkdir()
        record.symlink_to(tmp_path / "other")

    with pytest.raises(HarnessError, match="somebody renamed or replaced the folder of this run"):
        watch_while(cluster, tmp_path, swap)
    assert not any((tmp_path / "other").iterdir())
    manifest = read_manifest(RecordFolder(tmp_path / "renamed"))
    assert manifest.status == "failed"
    (topic,) = manifest.topics
    await_deletion(cluster, topic)
