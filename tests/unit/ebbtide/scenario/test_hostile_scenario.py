"""The scenario of a record that somebody else made: it is refused by every command before anything is made."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any
from unittest.mock import Mock

import msgspec
import pytest
import tomli_w
from daemon_up import Up
from judge_records import Story, last_replica_standing
from nights import NIGHT, World, job
from replay_records import LOST
from scenario_problems import problems

from analysis.judging.one_record import conclude, prepare_record
from analysis.reconcile.model import Reconciliation
from analysis.report.html import write_report
from ebbtide.daemon.control import ask
from ebbtide.daemon.messages import CreateTopic
from ebbtide.errors import ExitCode, Problems, UsageError
from ebbtide.pytest_plugin.chaos_scenario import chaos_scenario
from ebbtide.record.files import RecordFolder
from ebbtide.record.manifest import MANIFEST, read_manifest
from ebbtide.record.verdict import read_verdict
from ebbtide.releases.known_releases import KNOWN
from ebbtide.scenario.model import ClusterSpec, NodeRole, Scenario, TopicSpec
from ebbtide.scenario.parse import load, parse
from ebbtide.scenario.safety import refuse_unsafe
from ebbtide.scenario.steps.process import UpgradeStep
from ebbtide.scenario.write import keys_set
from harness.cli.main import main
from harness.nightly.followup import follow_up
from harness.nightly.job import ReleaseTarget
from harness.nightly.store import FinishedJob
from harness.random.drawing import draw
from harness.replay.recorded_run import load_run
from harness.runner import launch
from harness.runner.run import RunRequest, run_scenario

SECOND_LINE = {"zz.x": "1\nlog.dirs=/elsewhere"}
REFUSED = [
    SECOND_LINE,
    {"zz.x": "1\rlog.dirs=/elsewhere"},
    {"zz.x": "1\x00"},
    {"zz.x": "1\x7f"},
    {"zz.x": "1\x85log.dirs=/elsewhere"},
    {"zz.x": "1\u2028log.dirs=/elsewhere"},
    {"zz.x": "1\u2029log.dirs=/elsewhere"},
    {"zz.x\nlog.dirs": "/elsewhere"},
    {"log.dirs": "/elsewhere"},
    {"log.dirs ": "/elsewhere"},
    {" log.dirs": "/elsewhere"},
    {"log.dirs\t": "/elsewhere"},
    {"log.dirs\u00a0": "/elsewhere"},
    {"log\\u002edirs": "/elsewhere"},
    {"log\\.dirs": "/elsewhere"},
    {"log.dirs=/elsewhere#": "x"},
    {"log.dirs:/elsewhere#": "x"},
    {"#zz": "1"},
    {"!zz": "1"},
    {"": "1"},
    {"node.id": "7"},
    {"listeners": "PLAINTEXT://0.0.0.0:9092"},
    {"process.roles": "broker,controller"},
]
"""Properties that would be another one, or that tie a node to its place."""
OUTWARD = [
    {"kafka.metrics.reporters": "kafka.metrics.KafkaCSVMetricsReporter"},
    {"kafka.csv.metrics.dir": "/elsewhere"},
    {"remote.log.storage.manager.class.path": "/elsewhere/jars/*"},
    {"remote.log.metadata.manager.class.path": "/elsewhere/jars/*"},
    {"config.providers": "dir"},
    {"config.providers.dir.class": "org.apache.kafka.common.config.provider.DirectoryConfigProvider"},
    {"metrics.recording.level": "${dir:/elsewhere:secret}"},
    {"metric.reporters": "com.example.Reporter"},
    {"listener.name.plaintext.ssl.keystore.location": "/elsewhere"},
    {"max.connections.per.ip.overrides": "example.org:1"},
    {"of.no.release": "1"},
]
"""Properties by which Kafka reads, writes or runs other files, or reaches other addresses."""


def hostile(properties: dict[str, str], role: NodeRole = "broker") -> Scenario:
    scenario = load_run(LOST).scenario
    cluster = msgspec.structs.replace(scenario.cluster, **{f"{role}_properties": properties})
    return msgspec.structs.replace(scenario, cluster=cluster)


def text(scenario: Scenario) -> str:
    return tomli_w.dumps(keys_set(scenario))


@pytest.fixture
def record(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A record whose scenario has a second line in a value; a command that comes to preparing its runs fails."""
    monkeypatch.setattr(launch, "prepare", lambda *_: pytest.fail("prepared to run it"))
    monkeypatch.setattr("os.geteuid", lambda: 0)
    path = Path(shutil.copytree(LOST, tmp_path / "record"))
    (path / "scenario.toml").write_text(text(hostile(SECOND_LINE)))
    return path


def refused_at(refusal: Callable[[], object]) -> str:
    """The place of the one problem with which this is refused."""
    with pytest.raises(Problems) as refused:
        refusal()
    (problem,) = refused.value.problems
    return str(problem.where)


@pytest.mark.parametrize(
    ("role", "properties"), [*(("broker", one) for one in [*REFUSED, *OUTWARD]), ("controller", OUTWARD[0])], ids=repr
)
def test_a_property_that_leads_out_of_its_node_is_refused(properties: dict[str, str], role: NodeRole) -> None:
    place = refused_at(lambda: refuse_unsafe(hostile(properties, role)))
    assert place.startswith(f"cluster.{role}_properties")


def test_a_key_that_looks_like_the_place_of_a_step_is_an_unknown_key() -> None:
    assert problems(cluster='"steps[99].x" = 1\n').keys() == {"steps[99].x"}


@pytest.mark.parametrize("properties", [SECOND_LINE, OUTWARD[0]], ids=repr)
def test_it_is_refused_from_a_record_too(tmp_path: Path, properties: dict[str, str]) -> None:
    record = Path(shutil.copytree(LOST, tmp_path / "record"))
    (record / "scenario.toml").write_text(text(hostile(properties)))
    for refusal in (lambda: load_run(record), lambda: load(record / "scenario.toml", strict=True)):
        assert refused_at(refusal).startswith("cluster.broker_properties")


@pytest.mark.parametrize("properties", REFUSED, ids=repr)
def test_of_a_property_that_is_no_single_one_nobody_knows_what_kafka_read(properties: dict[str, str]) -> None:
    with pytest.raises(Problems):
        parse(text(hostile(properties)), file="scenario.toml")


@pytest.mark.parametrize(
    ("role", "properties"), [*(("broker", one) for one in OUTWARD), ("controller", OUTWARD[0])], ids=repr
)
def test_a_finished_record_whose_kafka_ran_or_wrote_files_elsewhere_is_judged_by_its_scenario(
    tmp_path: Path, properties: dict[str, str], role: NodeRole
) -> None:
    story = last_replica_standing(tmp_path)
    story.predict('loss = { committed = "some", cause = "last-replica-standing" }')
    set_here = tomli_w.dumps({"cluster": {f"{role}_properties": properties}})
    scenario = tmp_path / "scenario.toml"
    scenario.write_text(scenario.read_text().replace("[topics.t]", f"{set_here}\n[topics.t]"))
    verdict = story.judge()
    assert verdict.outcome == "as-predicted", verdict.why


@pytest.mark.parametrize(
    "words",
    [
        ["replay", "RECORD", "--runs", "RUNS"],
        ["shrink", "RECORD", "--runs", "RUNS", "--out", "RUNS.toml"],
        ["scenarios", "check", "RECORD/scenario.toml"],
        ["run", "RECORD/scenario.toml", "--runs", "RUNS"],
        ["cluster", "up", "RECORD/scenario.toml", "--runs", "RUNS"],
        ["cluster", "up", "RECORD/scenario.toml", "--runs", "RUNS", "--foreground", "--cluster", "one"],
    ],
    ids=lambda words: " ".join(words[:2]),
)
def test_every_command_refuses_it_before_anything_is_made(
    record: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], words: list[str]
) -> None:
    before = sorted(tmp_path.rglob("*"))
    said = [word.replace("RECORD", str(record)).replace("RUNS", str(tmp_path / "runs")) for word in words]
    assert main(said) == ExitCode.USAGE
    told = capsys.readouterr().err
    assert told.count("not a property's value") == 1
    assert "where:   cluster.broker_properties.zz.x" in told
    assert r"got:     '1\nlog.dirs=/elsewhere'" in told
    assert sorted(tmp_path.rglob("*")) == before


def test_a_scenario_that_was_never_a_file_is_refused_on_its_way_into_a_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("harness.runner.run.installation_of", lambda _: pytest.fail("would start a node"))
    with pytest.raises(Problems, match="not a property's value"):
        run_scenario(request_of(hostile(SECOND_LINE), tmp_path), Mock())
    with pytest.raises(UsageError, match="not a Kafka release"):
        run_scenario(request_of(hostile({}), tmp_path, kafka="../../4.3.1"), Mock())
    assert list(tmp_path.iterdir()) == []


def request_of(scenario: Scenario, folder: Path, kafka: str = "3.9.1") -> RunRequest:
    return RunRequest(scenario=scenario, kafka=kafka, seed=1, runs=folder / "runs")


@pytest.mark.parametrize(
    ("change", "where"),
    [
        ({"name": "../../outside"}, "name"),
        ({"kafka": ("../../4.3.1",)}, "kafka[0]"),
        ({"cluster": ClusterSpec(formed_on="../../4.3.1")}, "cluster.formed_on"),
        ({"steps": (UpgradeStep(to="../../4.3.1"),)}, "steps[0].to"),
        ({"topics": {"..": TopicSpec()}}, "topics..."),
        ({"topics": {"../../outside": TopicSpec()}}, "topics.../../outside"),
    ],
)
def test_a_name_that_is_a_path_is_refused(change: dict[str, Any], where: str) -> None:
    scenario = msgspec.structs.replace(hostile({}), **change)
    with pytest.raises(Problems) as refused:
        refuse_unsafe(scenario)
    assert [one.where for one in refused.value.problems] == [where]
    with pytest.raises(Problems) as refused:
        parse(text(scenario), file="scenario.toml")
    assert where in [one.where for one in refused.value.problems]


def test_a_random_schedule_is_safe_on_every_release() -> None:
    for release in KNOWN:
        refuse_unsafe(draw(7, kafka=release.version))


def test_the_plugin_refuses_it_in_a_marker() -> None:
    parts = {"cluster": {"broker_properties": SECOND_LINE}}
    with pytest.raises(Problems, match="not a property's value"):
        chaos_scenario(parts, "4.3.1", None)


def test_a_cluster_by_hand_is_given_no_topic_whose_name_is_a_path(no_clusters: None, up: Up) -> None:
    for name in ("..", "../../outside", "a\nb"):
        with pytest.raises(UsageError, match="not a topic name"):
            ask("one", CreateTopic(topic=name, spec=TopicSpec()))


def test_a_night_does_not_follow_up_a_record_that_was_tampered_with(tmp_path: Path) -> None:
    world = World(tmp_path / "store")
    shutil.copytree(LOST, world.store.runs / "lost")
    (world.store.runs / "lost" / "scenario.toml").write_text(text(hostile(SECOND_LINE)))
    done = FinishedJob(night=NIGHT, job=job(), run_id="lost", ended="contradicted")
    end = follow_up(
        world.store,
        done,
        launch=Mock(),
        judge=Mock(),
        display=Mock(),
        until_s=world.now_s + 1000,
        jobs=1,
        log=tmp_path / "log",
    )
    assert str(end.failure).endswith("scenario.toml: 1 problem")
    assert end.times == 0


def test_a_night_adopts_no_record_of_a_release_that_is_a_path(tmp_path: Path) -> None:
    world = World(tmp_path / "store")
    one = job()
    world.record(msgspec.structs.replace(one, target=ReleaseTarget(kafka="4.3.1")), name="good")
    bad = world.record(one, name="bad")
    manifest = read_manifest(RecordFolder(bad))
    (bad / MANIFEST).write_bytes(msgspec.json.encode(msgspec.structs.replace(manifest, kafka="../../4.3.1")))
    night = world.night()
    night.judge_unjudged()
    assert [done.run_id for done in night.done] == ["good"]


@pytest.mark.parametrize(
    "run_id",
    ["../../outside", "/outside", "..", ".", "", "a/b", "a\nb", "a b", "-a", "a" * 129, "a\x00"],
    ids=repr,
)
@pytest.mark.parametrize("verb", ["replay", "shrink"])
def test_a_run_id_that_is_a_path_is_refused_before_anything_is_made(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    verb: str,
    run_id: str,
) -> None:
    monkeypatch.setattr(launch, "prepare", lambda *_: pytest.fail("prepared to run it"))
    monkeypatch.setattr("os.geteuid", lambda: 0)
    record = Path(shutil.copytree(LOST, tmp_path / "in" / "record"))
    manifest = msgspec.structs.replace(read_manifest(RecordFolder(record)), run_id=run_id)
    (record / MANIFEST).write_bytes(msgspec.json.encode(manifest))
    before = sorted(tmp_path.rglob("*"))
    assert main([verb, str(record), "--runs", str(tmp_path / "in" / "runs")]) == ExitCode.USAGE
    assert "the run id in manifest.json cannot name a folder" in capsys.readouterr().err
    assert sorted(tmp_path.rglob("*")) == before


@pytest.mark.parametrize("run_id", ["../../outside", "run of an older version", "a\nb"], ids=repr)
def test_a_record_whose_run_id_names_no_folder_is_judged_in_its_own_folder(tmp_path: Path, run_id: str) -> None:
    record = tmp_path / "in" / "record"
    record.mkdir(parents=True)
    story = Story(record)
    story.change(run_id=run_id)
    story.predict('loss = { committed = "none" }')
    story.write()
    nothing = Reconciliation(counts=story.counts)
    prepared = prepare_record(RecordFolder(record))
    verdict = conclude(prepared, nothing)
    write_report(prepared, verdict)
    assert verdict.run_id == run_id
    assert read_verdict(RecordFolder(record)) == verdict
    assert (record / "report.html").is_file()
    assert [path.name for path in tmp_path.rglob("*") if record not in path.parents] == ["in", "record"]


@pytest.mark.parametrize("name", ["a,b", "a\nb", "a\x7fb"], ids=repr)
def test_no_record_is_made_in_a_folder_whose_name_kafka_cannot_read(tmp_path: Path, name: str) -> None:
    with pytest.raises(UsageError, match="cannot keep its logs below this folder"):
        launch.check(launch.LaunchOptions(runs=tmp_path / name), hostile({}), ["3.9.1"])
    assert list(tmp_path.iterdir()) == []
