"""The plan of a replay: the topology as recorded, and per step the state that was true when it fired."""

from __future__ import annotations

from pathlib import Path

import msgspec
import pytest
from plain_steps import step_of, trigger_of
from replay_records import LOST, SAVED, Rows, changed_copy

from ebbtide.errors import Problems, UsageError
from ebbtide.record.files import RecordFolder
from ebbtide.record.manifest import WatchFacts, read_manifest, write_manifest
from ebbtide.record.steps import read_steps, write_steps
from harness.replay.plan import plan
from harness.replay.recorded_run import LoadedRun, load_run
from harness.runner.gates import RecordedPartition


def test_the_replicas_are_those_of_the_record_and_not_drawn_again() -> None:
    assert plan(load_run(LOST)).scenario.topics["t"].assignment == ((2, 3, 1),)


def test_a_step_waits_for_the_partition_the_brokers_and_the_acked_records_of_its_moment() -> None:
    gates = plan(load_run(LOST)).gates
    assert gates[0].partitions == (RecordedPartition(partition="t-0", leader=2, isr=(1, 2, 3)),)
    assert gates[0].acked == 2000
    assert gates[2].partitions == (RecordedPartition(partition="t-0", leader=-1, isr=(2,)),)
    # The other two were fenced long before.
    assert [dict(gates[at].broker_states) for at in (2, 3)] == [{2: "fenced"}, {2: "unfenced"}]


def test_what_stayed_as_it_was_is_waited_for_only_where_the_step_speaks_of_it(tmp_path: Path) -> None:
    def with_another(rows: Rows) -> Rows:
        return [*rows, {**rows[0], "partition": 1}]

    recorded = changed_copy(LOST, tmp_path / "run", partitions=with_another)
    awaited = [[was.partition for was in gate.partitions] for gate in plan(recorded).gates.values()]
    assert awaited == [["t-0", "t-1"], ["t-0"], ["t-0"], ["t-0"]]
    spoken = step_of("heal", trigger=trigger_of(isr={"partition": "t-1", "size": 3}))
    steps = (*recorded.scenario.steps[:3], spoken)
    named = msgspec.structs.replace(recorded, scenario=msgspec.structs.replace(recorded.scenario, steps=steps))
    assert [was.partition for was in plan(named).gates[3].partitions] == ["t-0", "t-1"]


def test_a_topic_that_a_step_deleted_is_waited_for_no_more_until_it_is_made_again(tmp_path: Path) -> None:
    recorded = load_run(LOST)
    gone = msgspec.structs.replace(recorded.steps[0], step="delete-topic", parameters={"topic": "t"})
    deleted = msgspec.structs.replace(recorded, steps=(gone, *recorded.steps[1:]))
    assert [len(gate.partitions) for gate in plan(deleted).gates.values()] == [1, 0, 0, 0]

    def made_again(rows: Rows) -> Rows:
        shrunk = rows[1]
        again = {**rows[0], "at_ns": shrunk["at_ns"] + 1_000_000, "metadata_offset": shrunk["metadata_offset"] + 1}
        return [*rows[:2], again, *rows[2:]]

    again = changed_copy(LOST, tmp_path / "run", partitions=made_again)
    assert len(plan(msgspec.structs.replace(again, steps=deleted.steps)).gates[2].partitions) == 1


def test_records_count_only_where_the_state_had_stood_for_a_while(copy: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(LoadedRun, "acked_at", lambda _self, times_ns: [100 * at for at, _ in enumerate(times_ns)])
    steps = read_steps(RecordFolder(copy)) or []
    assert steps[3].fired_ns is not None
    later_ns = steps[3].fired_ns + 5_000_000_000
    write_steps(RecordFolder(copy), [*steps[:3], msgspec.structs.replace(steps[3], fired_ns=later_ns, effect_ns=None)])
    gates = plan(load_run(copy)).gates
    assert [gate.acked for gate in gates.values()] == [100, 300, 500, 700]
    # Before the third step the state had come within a second.
    assert [gates[at].acked_since for at in (0, 2, 3)] == [100, 0, 100]


def test_the_elr_is_part_of_the_state_where_the_release_has_one() -> None:
    assert plan(load_run(SAVED)).gates[2].partitions[0].elr != ()


def test_on_another_release_the_elr_is_not_waited_for() -> None:
    gates = plan(load_run(SAVED), kafka="3.9.1").gates
    assert {was.elr for gate in gates.values() for was in gate.partitions} == {None}


def _with_trigger(folder: Path, index: int) -> None:
    steps = read_steps(RecordFolder(folder)) or []
    steps[index] = msgspec.structs.replace(steps[index], trigger={"after": "3s"})
    write_steps(RecordFolder(folder), steps)


def test_a_time_in_which_a_state_came_about_gives_way_to_the_state(copy: Path) -> None:
    _with_trigger(copy, 2)
    gates = plan(load_run(copy)).gates
    assert gates[2].instead_of_trigger
    assert not gates[1].instead_of_trigger


def test_a_time_that_gives_way_goes_on_from_the_state_and_lasts_no_shorter_than_in_the_record(copy: Path) -> None:
    steps = read_steps(RecordFolder(copy)) or []
    _with_trigger(copy, 2)
    before, gate = steps[1].effect_ns, plan(load_run(copy)).gates[2]
    assert before is not None
    assert steps[2].fired_ns is not None
    assert 0.0 < gate.lasted_s < 1.0
    plain = plan(load_run(LOST)).gates[2]
    assert (plain.instead_s, gate.instead_s) == (0.0, pytest.approx((steps[2].fired_ns - before) / 1e9))
    assert gate.patience_s == pytest.approx(plain.patience_s + gate.instead_s)


def test_what_a_long_step_brought_about_itself_does_not_replace_the_time_after_it(copy: Path) -> None:
    steps = read_steps(RecordFolder(copy)) or []
    fired_ns = steps[3].fired_ns
    assert fired_ns is not None
    lasted = msgspec.structs.replace(steps[2], effect_ns=fired_ns)
    after = msgspec.structs.replace(steps[3], trigger={"after": "2s"}, fired_ns=fired_ns + 1)
    write_steps(RecordFolder(copy), [*steps[:2], lasted, after])
    gate = plan(load_run(copy)).gates[3]
    assert not gate.instead_of_trigger
    assert gate.lasted_s == 0.0
    # It is waited for nevertheless: it may come a little later than the step's end.
    assert [was.leader for was in gate.partitions] == [2]


def test_a_time_in_which_nothing_happened_stays_a_time(copy: Path) -> None:
    steps = read_steps(RecordFolder(copy)) or []
    same_moment = msgspec.structs.replace(steps[1], trigger={"after": "3s"}, index=2, fired_ns=steps[1].fired_ns)
    write_steps(RecordFolder(copy), [*steps[:2], same_moment, steps[3]])
    assert not plan(load_run(copy)).gates[2].instead_of_trigger


def test_a_seed_renames_the_brokers_everywhere_alike() -> None:
    recorded = load_run(LOST)
    step = step_of("isolate", target="broker(2)", from_=("broker(3)", "controllers"))
    scenario = msgspec.structs.replace(recorded.scenario, steps=(step,))
    drawn = plan(msgspec.structs.replace(recorded, scenario=scenario), seed=3)
    naming = drawn.naming
    assert naming != {1: 1, 2: 2, 3: 3}
    assert drawn.scenario.topics["t"].assignment == ((naming[2], naming[3], naming[1]),)
    renamed = step_of("isolate", target=f"broker({naming[2]})", from_=(f"broker({naming[3]})", "controllers"))
    assert drawn.scenario.steps[0] == renamed
    assert drawn.gates[1].partitions[0].isr == (naming[2],)
    assert drawn.gates[1].broker_states[naming[2]] == "unfenced"


def test_a_record_that_does_not_say_what_was_run_is_refused(copy: Path) -> None:
    (copy / "scenario.toml").unlink()
    with pytest.raises(UsageError, match=r"scenario\.toml is missing"):
        load_run(copy)


def test_a_step_on_a_topic_that_a_test_made_is_refused_with_what_runs_it_again(copy: Path) -> None:
    scenario = copy / "scenario.toml"
    step = '\n[[steps]]\nstep = "kill"\ntarget = "leader(orders-0)"\n'
    scenario.write_text(scenario.read_text() + step + step.replace("orders-0", "orders-1"))
    with pytest.raises(UsageError, match="a test or another program made topics") as caught:
        load_run(copy)
    assert caught.value.got == "'orders-0', 'orders-1'"
    assert caught.value.where == f"{scenario}: steps[4].target, steps[5].target"
    assert str(caught.value.next).startswith("pytest -x --lf")
    scenario.write_text(scenario.read_text() + step.replace("kill", "kil"))
    with pytest.raises(Problems, match="problem"):
        load_run(copy)


def test_a_record_with_steps_that_its_scenario_does_not_have_is_refused(copy: Path) -> None:
    steps = read_steps(RecordFolder(copy)) or []
    write_steps(RecordFolder(copy), [*steps, msgspec.structs.replace(steps[-1], index=len(steps))])
    with pytest.raises(UsageError, match="the record has steps that its scenario") as refused:
        load_run(copy)
    assert refused.value.next == f"ebbtide analyze {copy}"


def test_a_watch_of_somebody_elses_cluster_is_refused(copy: Path) -> None:
    manifest = msgspec.structs.replace(read_manifest(RecordFolder(copy)), watch=WatchFacts())
    write_manifest(RecordFolder(copy), manifest)
    with pytest.raises(UsageError, match="a watch cannot be repeated"):
        load_run(copy)


@pytest.fixture
def copy(tmp_path: Path) -> Path:
    """A copy of the record that lost, to be changed."""
    import shutil

    return Path(shutil.copytree(LOST, tmp_path / "run"))
