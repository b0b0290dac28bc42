"""The plan of a replay: the topology as recorded, and per step the state that was true when it fired."""

from __future__ import annotations

from pathlib import Path

import msgspec
import pytest
from replay_records import LOST, SAVED

from harness.errors import UsageError
from harness.record.steps import read_steps, write_steps
from harness.replay.plan import plan
from harness.replay.recorded import load_recorded
from harness.runner.gates import PartitionWas
from harness.scenario.model import StepSpec


def test_the_replicas_are_those_of_the_record_and_not_drawn_again() -> None:
    assert plan(load_recorded(LOST)).scenario.topics["t"].assignment == ((2, 3, 1),)


def test_a_step_waits_for_the_partition_the_brokers_and_the_acked_records_of_its_moment() -> None:
    gates = plan(load_recorded(LOST)).gates
    assert gates[0].partitions == (PartitionWas(partition="t-0", leader=2, isr=(1, 2, 3)),)
    assert gates[0].acked == 2000
    assert gates[2].partitions == (PartitionWas(partition="t-0", leader=-1, isr=(2,)),)
    assert dict(gates[3].standings) == {1: "fenced", 2: "unfenced", 3: "fenced"}


def test_the_elr_is_part_of_the_state_where_the_release_has_one() -> None:
    assert plan(load_recorded(SAVED)).gates[2].partitions[0].elr != ()


def test_on_another_release_the_elr_is_not_waited_for() -> None:
    assert {gate.partitions[0].elr for gate in plan(load_recorded(SAVED), kafka="3.9.1").gates.values()} == {None}


def _with_trigger(folder: Path, index: int) -> None:
    steps = read_steps(folder) or []
    steps[index] = msgspec.structs.replace(steps[index], trigger={"after": "3s"})
    write_steps(folder, steps)


def test_a_time_in_which_a_state_came_about_gives_way_to_the_state(copy: Path) -> None:
    _with_trigger(copy, 2)
    gates = plan(load_recorded(copy)).gates
    assert gates[2].instead_of_trigger
    assert not gates[1].instead_of_trigger


def test_a_time_in_which_nothing_happened_stays_a_time(copy: Path) -> None:
    steps = read_steps(copy) or []
    same_moment = msgspec.structs.replace(steps[1], trigger={"after": "3s"}, index=2, fired_ns=steps[1].fired_ns)
    write_steps(copy, [*steps[:2], same_moment, steps[3]])
    assert not plan(load_recorded(copy)).gates[2].instead_of_trigger


def test_a_seed_renames_the_brokers_everywhere_alike() -> None:
    recorded = load_recorded(LOST)
    step = StepSpec(step="isolate", target="broker(2)", from_=("broker(3)", "controllers"))
    scenario = msgspec.structs.replace(recorded.scenario, steps=(step,))
    drawn = plan(msgspec.structs.replace(recorded, scenario=scenario), seed=3)
    naming = drawn.naming
    assert naming != {1: 1, 2: 2, 3: 3}
    assert drawn.scenario.topics["t"].assignment == ((naming[2], naming[3], naming[1]),)
    assert drawn.scenario.steps[0].target == f"broker({naming[2]})"
    assert drawn.scenario.steps[0].from_ == (f"broker({naming[3]})", "controllers")
    assert drawn.gates[1].partitions[0].isr == (naming[2],)
    assert drawn.gates[1].standings[naming[2]] == "unfenced"


def test_the_same_seed_draws_the_same_names() -> None:
    recorded = load_recorded(LOST)
    assert plan(recorded, seed=5) == plan(recorded, seed=5)


def test_a_record_that_does_not_say_what_was_run_is_refused(copy: Path) -> None:
    (copy / "scenario.toml").unlink()
    with pytest.raises(UsageError, match=r"scenario\.toml is missing"):
        load_recorded(copy)


@pytest.fixture
def copy(tmp_path: Path) -> Path:
    """A copy of the record that lost, to be changed."""
    import shutil

    return Path(shutil.copytree(LOST, tmp_path / "run"))
