"""`ebbtide replay` after its runs: the record and its replays are judged together, and what fails hides no other."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable, Iterator, Mapping
from contextlib import nullcontext
from pathlib import Path
from types import SimpleNamespace
from unittest.mock import Mock

import msgspec
import pytest
from replay_records import LOST, renamed_copy

from analysis.judging import many_records as many
from analysis.report.html import REPORT
from ebbtide import judging_process
from ebbtide.errors import EbbtideError, ExitCode, UsageError
from ebbtide.record.files import ANOMALIES_DIR, RecordFolder
from ebbtide.record.manifest import Status, failure_keys, read_manifest, write_manifest
from ebbtide.record.outcomes import AnalyzedRecord
from ebbtide.record.steps import read_steps, write_steps
from ebbtide.record.verdict import Outcome, Verdict, read_verdict, write_verdict
from harness.cli import crash
from harness.cli.main import main
from harness.replay import replaying
from harness.replay.plan import plan
from harness.replay.recorded_run import load_run, load_run_to_repeat
from harness.replay.replaying import UnjudgedReplay
from harness.runner import launch

Ends = dict[Path, Verdict | EbbtideError]


def verdict_of(record: Path) -> Verdict:
    verdict = read_verdict(RecordFolder(record))
    assert verdict is not None
    return verdict


class World:
    """A record and the replays that `ebbtide replay` has of it; `ends` is what judging them comes to."""

    def __init__(self, folder: Path) -> None:
        self.recorded, *self.replayed = (Path(shutil.copytree(LOST, folder / name)) for name in ("r", "a", "b", "c"))
        self.ends: Ends = {one: verdict_of(one) for one in (self.recorded, *self.replayed)}
        self.judged: list[Path] = []
        self.interrupted = False
        self.kafka = "3.9.1"

    def run_replays(self, *_: object, **__: object) -> Iterator[UnjudgedReplay]:
        planned = plan(load_run(LOST), kafka="3.9.1")
        for record in self.replayed:
            yield UnjudgedReplay(kafka=self.kafka, plan=planned, record=record)
        if self.interrupted:
            raise KeyboardInterrupt

    def judge(self, record: Path) -> AnalyzedRecord:
        """Answer as a judging process; as the real one it writes more than a verdict."""
        self.judged.append(record)
        end = self.ends[record]
        if isinstance(end, many.Bug):
            failure = crash.write_crash_report(end.error)
            return AnalyzedRecord(record=str(record), exit_code=ExitCode.HARNESS_FAILED, failure=failure)
        if isinstance(end, EbbtideError):
            return AnalyzedRecord(record=str(record), exit_code=end.exit_code, failure=end.render())
        write_verdict(RecordFolder(record), end)
        (record / REPORT).write_text(end.outcome)
        shutil.rmtree(record / ANOMALIES_DIR, ignore_errors=True)
        (record / ANOMALIES_DIR).mkdir()
        (record / ANOMALIES_DIR / "new.parquet").touch()
        return AnalyzedRecord(record=str(record), outcome=end.outcome, exit_code=0)


@pytest.fixture
def world(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> World:
    world = World(tmp_path)
    monkeypatch.setattr(replaying, "run_replays", world.run_replays)
    monkeypatch.setattr(launch, "check", lambda *_: None)
    monkeypatch.setattr(launch, "prepare", lambda *_: SimpleNamespace(power_loss_method="fs-shutdown", runtimes={}))
    monkeypatch.setattr(judging_process, "JudgingProcess", lambda **_: nullcontext(Mock(judge=world.judge)))
    monkeypatch.setattr(crash, "state_dir", lambda: tmp_path / "state")
    monkeypatch.setattr("os.geteuid", lambda: 0)
    return world


@pytest.mark.parametrize("broken", [UsageError, lambda what: many.Bug(RecordFolder(Path("b")), KeyError(what))])
def test_a_replay_that_cannot_be_judged_leaves_the_rate_of_the_others(
    world: World, capsys: pytest.CaptureFixture[str], broken: Callable[[str], EbbtideError]
) -> None:
    bad = world.replayed[1]
    world.ends[bad] = broken("a column")
    assert main(["replay", str(world.recorded), "--json"]) == ExitCode.HARNESS_FAILED
    told = capsys.readouterr()
    found = json.loads(told.out)
    assert (found["releases"][0]["times"], found["releases"][0]["same"]) == (3, 2)
    assert [one.get("fidelity") for one in found["replays"]] == [1.0, None, 1.0]
    assert found["replays"][1]["failure"].startswith(f"{bad} could not be judged: ")
    assert f"error: {bad}: " in told.err
    assert ("internal error, a bug in ebbtide: KeyError" in told.err) is (broken is not UsageError)


def test_a_run_that_failed_before_anything_came_about_is_refused_at_once(
    world: World, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    record = world.recorded
    monkeypatch.setattr(launch, "prepare", lambda *_: pytest.fail("prepared before"))
    failed = failure_keys(UsageError("no such setting", where="topics.t.config", next="correct it"))
    write_manifest(
        RecordFolder(record), msgspec.structs.replace(read_manifest(RecordFolder(record)), status="failed", **failed)
    )
    write_steps(
        RecordFolder(record),
        [msgspec.structs.replace(step, fired_ns=None) for step in read_steps(RecordFolder(record)) or []],
    )
    for table in RecordFolder(record).files("sends"):
        table.unlink()
    assert main(["replay", str(record)]) == ExitCode.USAGE
    told = capsys.readouterr().err
    assert "there is nothing to repeat" in told
    assert "next:    correct it\n" in told
    assert "got:     no such setting (topics.t.config)\n" in told
    full = failure_keys(OSError("the disk was full")) | {"failure_clause": None, "failure_next": None}
    write_manifest(RecordFolder(record), msgspec.structs.replace(read_manifest(RecordFolder(record)), **full))
    assert main(["replay", str(record)]) == ExitCode.USAGE
    told = capsys.readouterr().err
    assert f"next:    ebbtide run {record / 'scenario.toml'}\n" in told


@pytest.mark.parametrize("interruption", [{"failure": "interrupted by a signal"}, {}], ids=["a signal", "a kill"])
def test_a_run_that_was_interrupted_before_anything_came_about_is_refused_too(
    world: World, interruption: Mapping[str, str]
) -> None:
    record = world.recorded
    write_manifest(
        RecordFolder(record),
        msgspec.structs.replace(read_manifest(RecordFolder(record)), status="interrupted", **interruption),
    )
    write_steps(
        RecordFolder(record),
        [msgspec.structs.replace(step, fired_ns=None) for step in read_steps(RecordFolder(record)) or []],
    )
    for table in RecordFolder(record).files("sends"):
        table.unlink()
    with pytest.raises(UsageError, match="the run was interrupted before its first step") as caught:
        load_run_to_repeat(record)
    assert caught.value.next == f"ebbtide run {record / 'scenario.toml'}"


@pytest.mark.parametrize("ended", ["failed", "interrupted"])
@pytest.mark.parametrize("came_about", ["a step", "an ack", "a client's journal", "its end"])
def test_a_run_in_which_something_came_about_can_be_replayed(world: World, came_about: str, ended: Status) -> None:
    record = world.recorded
    status: Status = "complete" if came_about == "its end" else ended
    write_manifest(RecordFolder(record), msgspec.structs.replace(read_manifest(RecordFolder(record)), status=status))
    if came_about != "a step":
        write_steps(
            RecordFolder(record),
            [msgspec.structs.replace(step, fired_ns=None) for step in read_steps(RecordFolder(record)) or []],
        )
    if came_about != "an ack":
        for table in RecordFolder(record).files("sends"):
            table.unlink()
    if came_about == "a client's journal":
        (record / "journal").mkdir()
        (record / "journal" / "producer-1.journal").touch()
    load_run_to_repeat(record)


def test_a_record_is_compared_by_the_rules_that_its_replays_are_judged_by(
    world: World, capsys: pytest.CaptureFixture[str]
) -> None:
    verdict = verdict_of(LOST)
    losses = [msgspec.structs.replace(one, cause="beyond-tolerance") for one in verdict.losses]
    for record in world.ends:
        world.ends[record] = msgspec.structs.replace(verdict, losses=losses)
    assert main(["replay", str(world.recorded)]) == ExitCode.AS_PREDICTED
    assert world.judged == [world.recorded, *world.replayed]
    assert "3 of 3 with the same outcome and cause" in capsys.readouterr().out


@pytest.mark.parametrize("read_only", [True, False])
def test_a_record_that_cannot_be_judged_anew_is_compared_by_its_stored_verdict_which_is_said(
    world: World, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], *, read_only: bool
) -> None:
    if read_only:
        monkeypatch.setattr("os.access", lambda *_: False)
    else:
        world.ends[world.recorded] = UsageError("the table polls is damaged")
    assert main(["replay", str(world.recorded)]) == ExitCode.AS_PREDICTED
    assert (world.recorded in world.judged) is not read_only
    assert "could not be judged again" in capsys.readouterr().err


@pytest.mark.parametrize("had", [True, False])
def test_a_record_that_proves_nothing_any_more_keeps_what_judging_had_written_and_is_compared_by_it(
    world: World, capsys: pytest.CaptureFixture[str], *, had: bool
) -> None:
    stored = verdict_of(world.recorded)
    report, anomaly = world.recorded / REPORT, world.recorded / ANOMALIES_DIR / "old.parquet"
    shutil.rmtree(anomaly.parent)
    if had:
        report.write_text("the report")
        anomaly.parent.mkdir()
        anomaly.write_text("an anomaly")
    world.ends[world.recorded] = msgspec.structs.replace(stored, outcome="inconclusive", why=["watermarks is missing"])
    assert main(["replay", str(world.recorded)]) == ExitCode.AS_PREDICTED
    assert "is inconclusive when judged again (watermarks is missing)" in capsys.readouterr().err
    assert verdict_of(world.recorded) == stored
    assert [one.read_text() for one in (report, anomaly) if one.exists()] == ["the report", "an anomaly"] * had
    assert not (anomaly.parent / "new.parquet").exists()


def test_a_record_without_any_verdict_is_an_error_that_says_which_replays_there_are(
    world: World, capsys: pytest.CaptureFixture[str]
) -> None:
    (world.recorded / "verdict.json").unlink()
    world.ends[world.recorded] = UsageError("the table polls is damaged")
    assert main(["replay", str(world.recorded)]) == ExitCode.USAGE
    told = capsys.readouterr().err
    assert "the table polls is damaged" in told
    assert f"ebbtide analyze {world.replayed[0]} " in told


@pytest.mark.parametrize("outcome", ["as-predicted", "contradicted"])
@pytest.mark.parametrize("times", [1, 3])
def test_replays_on_a_release_that_saves_the_records_are_said_to_lose_none(
    world: World, capsys: pytest.CaptureFixture[str], outcome: Outcome, times: int
) -> None:
    world.kafka, world.replayed = "4.3.1", world.replayed[:times]
    for record in world.replayed:
        write_manifest(
            RecordFolder(record), msgspec.structs.replace(read_manifest(RecordFolder(record)), kafka="4.3.1")
        )
        verdict = verdict_of(record)
        held = [msgspec.structs.replace(one, status="holds") for one in verdict.properties]
        saved = msgspec.structs.replace(verdict, outcome=outcome, losses=[], anomalies=[], properties=held)
        world.ends[record] = saved
    main(["replay", str(world.recorded), "--kafka", "4.3.1"])
    told = capsys.readouterr().out
    assert "would Kafka 4.3.1 have saved the records? yes: " in told
    assert "with the same outcome" not in told
    line = next(line for line in told.splitlines() if line.startswith("replayed on Kafka 4.3.1: "))
    assert line.startswith(
        "replayed on Kafka 4.3.1: no committed record lost" + (" in any of 3" if times == 3 else "") + ", "
    )
    assert ("as the specification predicts for this release" in line) is (outcome == "as-predicted")


def test_properties_that_kafka_ignored_in_the_replays_are_reported(
    world: World, capsys: pytest.CaptureFixture[str]
) -> None:
    ignored = "cluster.broker_properties.old"
    for record in world.replayed[:2]:
        write_manifest(
            RecordFolder(record),
            msgspec.structs.replace(read_manifest(RecordFolder(record)), ignored_properties=(ignored,)),
        )
    assert main(["replay", str(world.recorded)]) == ExitCode.AS_PREDICTED
    assert capsys.readouterr().out.count(f"ignored, because Kafka 3.9.1 does not know them: {ignored}\n") == 1
    assert main(["replay", str(world.recorded), "--json"]) == ExitCode.AS_PREDICTED
    told = [one["ignored_properties"] for one in json.loads(capsys.readouterr().out)["replays"]]
    assert told == [[ignored], [ignored], []]


def test_nodes_with_other_ids_are_said_to_have_those_of_the_replay(
    world: World, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    same, _, _ = world.replayed
    other = renamed_copy(LOST, tmp_path / "renamed", {1: 2, 2: 3, 3: 1}).folder
    told = "    node ids, record -> replay: 1 -> 2, 2 -> 3, 3 -> 1; the lines below have the ids of the replay\n"
    for replayed, is_told in ((same, False), (other, True)):
        world.replayed = [replayed]
        world.ends[replayed] = verdict_of(replayed)
        assert main(["replay", str(world.recorded)]) == ExitCode.AS_PREDICTED
        assert (told in capsys.readouterr().out) is is_told
