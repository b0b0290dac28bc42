"""What a run does before its first step and after its last: its folder, its release, the final read, the copies."""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import evidence_builders as build
import pyarrow.parquet as pq
import pytest

from cluster.runtime.base import NodeReleases
from ebbtide.errors import HarnessError, UsageError
from ebbtide.logs.checkpoint_file import HIGH_WATERMARKS
from ebbtide.logs.segments import TopicPartition
from ebbtide.record.files import RecordFolder
from ebbtide.scenario.steps.process import UpgradeStep
from ebbtide.waiting import WaitExpired
from faults.base import proven_effect, unproven_effect
from faults.injector import Plan
from harness.runner.collect import collect_raw
from harness.runner.ending import Ending
from harness.runner.host import java_agents, make_record
from harness.runner.session import form_on, roll_to
from workloads.config import AnsweredHighWatermarks, FinalRead


@pytest.fixture
def broker(tmp_path: Path) -> Any:
    """A broker with t-0 in directory 1, and t-1 and a future replica of t-0 in directory 2."""
    dirs = (tmp_path / "one", tmp_path / "two")
    build.write_log(dirs[0] / "t-0", build.plain_batch(0, b"1"))
    build.write_log(dirs[1] / "t-1", build.plain_batch(0, b"1"))
    build.write_log(dirs[1] / "t-0.0123456789abcdef-future", build.plain_batch(0, b"1"))
    for data in dirs:
        (data / HIGH_WATERMARKS).write_text("0\n0\n")
    node = SimpleNamespace(id=1, role="broker", name="broker-1")
    return SimpleNamespace(nodes={1: node}, dirs=dirs, data_dirs=lambda _: dirs)


def copied(record: Path) -> set[str]:
    raw = record / "raw" / "broker-1"
    return {str(path.relative_to(raw)) for path in raw.rglob("*") if path.is_file()}


def test_each_directory_is_copied_to_its_place_without_future_replicas(broker: Any, tmp_path: Path) -> None:
    segment = f"{0:020}.log"
    assert collect_raw(broker, ["t"], RecordFolder(tmp_path / "record")) == ()
    assert copied(tmp_path / "record") == {
        HIGH_WATERMARKS,
        f"t-0/{segment}",
        f"dirs/2/{HIGH_WATERMARKS}",
        f"dirs/2/t-1/{segment}",
    }


def test_a_replica_in_two_directories_is_left_out_and_said(broker: Any, tmp_path: Path) -> None:
    build.write_log(broker.dirs[1] / "t-0", build.plain_batch(0, b"other"))
    assert collect_raw(broker, ["t"], RecordFolder(tmp_path / "record")) == ("broker-1/t-0",)
    assert not any("t-0" in name for name in copied(tmp_path / "record"))


def test_the_batches_of_every_log_are_kept_without_what_is_in_them(broker: Any, tmp_path: Path) -> None:
    build.write_log(broker.dirs[0] / "empty-0")
    collect_raw(broker, ["t"], RecordFolder(tmp_path / "record"), own_clients=True)
    rows = pq.read_table(tmp_path / "record" / "wire" / "replicas.parquet").to_pylist()
    found = [(row["kind"], row["broker"], row["topic"], row["offset"], row["last_offset"]) for row in rows]
    assert found == [
        ("replica-log", 1, "empty", 0, 0),
        *(("replica", 1, "t", 0, 0), ("replica-log", 1, "t", 0, 1)) * 2,
    ]


def test_batches_of_a_replica_in_two_directories_are_left_out(broker: Any, tmp_path: Path) -> None:
    build.write_log(broker.dirs[1] / "t-0", build.plain_batch(0, b"other"))
    collect_raw(broker, ["t"], RecordFolder(tmp_path / "record"), own_clients=True)
    rows = pq.read_table(tmp_path / "record" / "wire" / "replicas.parquet").to_pylist()
    assert {row["partition"] for row in rows} == {1}


def test_a_copy_that_fails_is_not_said_to_be_an_error_of_the_table(
    broker: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(source: Path, target: Path) -> None:
        raise OSError(5, "Input/output error", str(source))

    monkeypatch.setattr("shutil.copy2", fail)
    with pytest.raises(OSError, match="Input/output error"):
        collect_raw(broker, ["t"], RecordFolder(tmp_path / "record"), own_clients=True)


# The folder of a record is the one that was made.


def test_a_record_is_made_and_held_open(tmp_path: Path) -> None:
    with contextlib.closing(make_record(RecordFolder(tmp_path / "runs" / "one"))) as held:
        (held.path / "file").touch()
    assert (tmp_path / "runs" / "one" / "file").exists()


def test_a_link_that_takes_the_place_of_a_new_record_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "other").mkdir()
    monkeypatch.setattr(Path, "mkdir", lambda folder, **_: folder.symlink_to(tmp_path / "other"))
    with pytest.raises(UsageError, match="records cannot be made in this folder"):
        make_record(RecordFolder(tmp_path / "one"))
    assert list((tmp_path / "other").iterdir()) == []


# The end of a run: the final read asks the replicas, and the nodes are looked at after it.


AT = TopicPartition("t", 0)
ROW = SimpleNamespace(topic="t", leader=1, isr=(1, 2), replicas=(1, 2), adding=(), removing=())


class FakeWorkload:
    """Notes which replicas it is to ask."""

    def __init__(self, answered: AnsweredHighWatermarks) -> None:
        self.answered = answered
        self.asked: Any = None

    def stop_producers(self) -> None:
        """Nothing runs."""

    def final_read(self, _timeout_s: float, **asked: Any) -> FinalRead:
        """Note what was asked."""
        self.asked = asked
        return FinalRead(offsets={}, answered=self.answered)


def ending(workload: FakeWorkload, watch: Callable[[], None], notes: list[str]) -> Ending:
    fakes: dict[str, Any] = {
        "scenario": SimpleNamespace(
            topics={"t": SimpleNamespace(partitions=1)}, settle_s=1, producers=[SimpleNamespace(count=None)]
        ),
        "runtime": SimpleNamespace(nodes={}, published=None, wait_ready=lambda *_: None),
        "view": SimpleNamespace(image=SimpleNamespace(partitions={AT: ROW})),
        "workload": workload,
        "schedule": SimpleNamespace(restore=lambda: None, deleted_topics=()),
        "display": SimpleNamespace(note=notes.append),
    }
    return Ending(**fakes, watch=watch, time_phase=lambda _: contextlib.nullcontext())


def test_every_replica_of_the_run_is_asked_for_its_hw() -> None:
    workload = FakeWorkload(AnsweredHighWatermarks(why_not_all="t-0 on broker 2 cannot be asked"))
    notes: list[str] = []
    ending(workload, lambda: None, notes).carry_out()
    assert workload.asked["replicas"] == {AT: (1, 2)}
    assert [note for note in notes if note.startswith("t-0 on broker 2 cannot be asked; ")]


def test_a_node_that_ends_by_itself_during_the_final_read_ends_the_run() -> None:
    workload = FakeWorkload(AnsweredHighWatermarks())

    def watch() -> None:
        if workload.asked is not None:
            raise HarnessError("broker-1 ended by itself")

    with pytest.raises(HarnessError, match="broker-1 ended by itself"):
        ending(workload, watch, []).carry_out()


# A cluster that is formed on an earlier release is at the run's release before the run begins.


def test_every_node_begins_on_the_earlier_release_which_this_host_must_have() -> None:
    required: list[str] = []
    runtime = SimpleNamespace(
        nodes={100: None, 1: None}, releases=NodeReleases((100, 1), "4.3.1"), require_release=required.append
    )
    form_on(runtime, "3.9.1")  # type: ignore[arg-type]
    assert required == ["3.9.1"]
    assert [runtime.releases[node] for node in (100, 1)] == ["3.9.1", "3.9.1"]


def test_the_controllers_move_before_the_brokers() -> None:
    moved: list[tuple[str, str]] = []

    def plan(step: UpgradeStep) -> Plan:
        moved.append((str(step.target), step.to))
        return Plan(nodes=(1,), description=str(step.target), act=proven_effect)

    noted: list[str] = []
    roll_to("4.3.1", plan, noted.append, timeout_s=5.0)
    assert moved == [("controllers", "4.3.1"), ("brokers", "4.3.1")]
    assert noted == ["upgrade controllers: took effect", "upgrade brokers: took effect"]


def test_a_node_that_does_not_get_there_ends_the_run() -> None:
    def plan(step: UpgradeStep) -> Plan:
        return Plan(nodes=(1,), description="", act=lambda: unproven_effect("it says 3.9.1"))

    with pytest.raises(HarnessError, match=r"controllers could not be moved to Kafka 4\.3\.1") as failed:
        roll_to("4.3.1", plan, lambda _text: None, timeout_s=5.0)
    assert failed.value.got == "it says 3.9.1"


def test_a_record_names_the_agents_of_its_nodes_without_their_folders_and_arguments() -> None:
    options = "-Dhttp.proxyPassword=secret -javaagent:/opt/apm.jar=key:secret -agentlib:jdwp=address=me:5005 -Xmx1g"
    assert java_agents(options) == "apm.jar, jdwp"
    assert java_agents("-Xmx1g") == ""


def test_a_cluster_that_did_not_settle_without_its_topic_says_so() -> None:
    end = ending(FakeWorkload(AnsweredHighWatermarks()), lambda: None, [])
    end.view.image.partitions.clear()

    def expire(*_: object) -> None:
        raise WaitExpired("broker-1 to be ready", 1.0, "broker-1 is not registered")

    end.runtime.wait_ready = expire  # type: ignore[method-assign]
    why = end.carry_out().why_no_final_read
    assert why is not None
    assert "the metadata log no longer has the topic t; " in why
