"""hw-frozen-below-min-isr holds a leader only to what it surely knew: not to what the harness kept from it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from judge_records import ELR_ON, Story, by_name, ns
from metadata_rows import order_by_time

from ebbtide.record.manifest import Topology
from ebbtide.record.steps import StepEntry

HELD_UNTIL_S = 20


def story_of_raise(record: Path, *, controllers: tuple[int, ...] = (100,)) -> Story:
    """min.insync.replicas is raised above the ISR at 5 s, and the HW moves from 7 s to 9 s."""
    story = Story(record, kafka="4.3.1", features=ELR_ON)
    story.change(topology=Topology(controllers=controllers, brokers=(1, 2, 3)))
    story.state(1, isr=[1, 2], elr=[3])
    story.config(5, "topic:t", "min.insync.replicas", "3")
    story.hw(7, 1, 0, 100)
    story.hw(9, 1, 0, 200)
    return story


def fault(
    story: Story,
    step: str,
    *nodes: int,
    at_s: float = 3,
    until_s: float | None = HELD_UNTIL_S,
    proof: dict[str, Any] | None = None,
    **parameters: Any,
) -> None:
    """A step in force from `at_s` to `until_s`."""
    assert story.steps is not None
    story.steps.append(
        StepEntry(
            index=len(story.steps),
            step=step,
            nodes=nodes,
            fired_ns=ns(at_s),
            effect_ns=ns(at_s),
            healed_ns=None if until_s is None else ns(until_s),
            proof={"probe": "ok", **(proof or {})},
            parameters=parameters,
        )
    )


def status(story: Story) -> str:
    return by_name(story.judge())["hw-frozen-below-min-isr"]


def test_a_leader_that_could_read_the_raised_min_isr_must_not_move_the_hw(tmp_path: Path) -> None:
    assert status(story_of_raise(tmp_path)) == "violated"


@pytest.mark.parametrize("step", ["hold-request", "delay-request", "drop-request"])
@pytest.mark.parametrize("to", [[], ["controllers"], ["controller"], ["step(active)"], ["broker(2)", "controllers"]])
def test_a_leader_whose_reads_of_the_metadata_log_were_stopped_did_not_know(
    tmp_path: Path, step: str, to: list[str]
) -> None:
    story = story_of_raise(tmp_path)
    parameters: dict[str, Any] = {"to": to} if to else {}
    fault(story, step, 1, api="Fetch", **parameters)
    assert status(story) == "not-exercised"


@pytest.mark.parametrize(("api", "direction"), [("ApiVersions", "request"), ("FetchSnapshot", "response")])
def test_a_leader_that_could_not_connect_or_get_the_snapshot_had_no_metadata_log_to_read(
    tmp_path: Path, api: str, direction: str
) -> None:
    story = story_of_raise(tmp_path)
    fault(story, "hold-request", 1, api=api, to=["controllers"], direction=direction)
    assert status(story) == "not-exercised"


@pytest.mark.parametrize(
    ("step", "node", "parameters"),
    [
        ("hold-request", 2, {"api": "Fetch", "to": ["controllers"]}),
        ("hold-request", 1, {"api": "Fetch", "to": ["broker(2)", "leader(t-1)"]}),
        ("hold-request", 1, {"api": "AlterPartition"}),
        ("duplicate-request", 1, {"api": "Fetch"}),
        ("slow-disk", 2, {}),
        ("set-clock", 2, {}),
        ("kill", 3, {}),
    ],
)
def test_what_does_not_stand_between_the_leader_and_the_metadata_log_excuses_nothing(
    tmp_path: Path, step: str, node: int, parameters: dict[str, Any]
) -> None:
    story = story_of_raise(tmp_path)
    fault(story, step, node, **parameters)
    assert status(story) == "violated"


def test_a_hold_excuses_nothing_that_the_leader_knew_before_it(tmp_path: Path) -> None:
    story = story_of_raise(tmp_path)
    fault(story, "hold-request", 1, api="Fetch", at_s=6)
    assert status(story) == "violated"


def test_a_hold_excuses_nothing_a_session_after_its_end(tmp_path: Path) -> None:
    story = story_of_raise(tmp_path)
    fault(story, "hold-request", 1, api="Fetch")
    story.hw(HELD_UNTIL_S + 9, 1, 0, 200)
    story.hw(HELD_UNTIL_S + 11, 1, 0, 200)
    story.hw(HELD_UNTIL_S + 12, 1, 0, 200)
    assert status(story) == "holds"
    story.tables["watermarks"][-1]["high_watermark"] = 201
    assert status(story) == "violated"


def test_a_hold_that_ended_just_before_may_still_be_felt(tmp_path: Path) -> None:
    story = story_of_raise(tmp_path)
    fault(story, "hold-request", 1, api="Fetch", until_s=4.9)
    assert status(story) == "not-exercised"


def test_a_hold_that_never_ended_excuses_everything(tmp_path: Path) -> None:
    story = story_of_raise(tmp_path)
    fault(story, "hold-request", 1, api="Fetch", until_s=None)
    story.hw(50, 1, 0, 300)
    assert status(story) == "not-exercised"


def test_holds_that_follow_one_another_count_as_one(tmp_path: Path) -> None:
    story = story_of_raise(tmp_path)
    fault(story, "hold-request", 1, api="Fetch", at_s=5.2, until_s=6)
    fault(story, "hold-request", 1, api="Fetch", at_s=8, until_s=30)
    story.hw(20, 1, 0, 300)
    assert status(story) == "not-exercised"


def test_a_slow_link_or_disk_or_a_clock_of_the_leader_may_keep_the_metadata_log_from_it(tmp_path: Path) -> None:
    measured: dict[str, Any] = {"transfers": {"100>1": {}}}
    for step, proof in (
        ("limit-bandwidth", measured),
        ("limit-bandwidth", None),
        ("slow-disk", None),
        ("set-clock", None),
    ):
        story = story_of_raise(tmp_path)
        fault(story, step, 1, proof=proof)
        assert status(story) == "not-exercised"


def test_a_slow_link_between_brokers_excuses_nothing(tmp_path: Path) -> None:
    story = story_of_raise(tmp_path)
    fault(story, "limit-bandwidth", 1, 2, proof={"transfers": {"1>2": {}, "2>1": {}}})
    assert status(story) == "violated"


@pytest.mark.parametrize(
    ("step", "nodes", "proof"),
    [
        ("kill", (100,), {}),
        ("power-loss", (100,), {}),
        ("pause", (100,), {}),
        ("slow-disk", (100,), {}),
        ("set-clock", (100,), {}),
        ("reset-clock", (100,), {}),
        ("partition", (100, 101, 102), {"cuts": ["100>101", "101>100", "100>102", "102>100"]}),
        ("isolate", (100,), {"cuts": ["100>101", "101>100", "100>102", "102>100"]}),
        ("flap", (100, 101), {}),
        ("restart", (100,), {}),
        ("rolling", (100, 101, 102), {}),
    ],
)
def test_what_befell_a_controller_may_have_kept_its_log_from_the_leader(
    tmp_path: Path, step: str, nodes: tuple[int, ...], proof: dict[str, Any]
) -> None:
    story = story_of_raise(tmp_path, controllers=(100, 101, 102))
    fault(story, step, *nodes, proof=proof)
    assert status(story) == "not-exercised"


def test_a_broker_counts_the_replicas_of_the_partition_itself(tmp_path: Path) -> None:
    for replicas in ([1], [1, 2]):
        story = Story(tmp_path, min_isr=3)
        story.state(1)
        story.state(1, partition=1, partition_epoch=0, replicas=replicas, isr=replicas)
        story.hw(7, 1, 0, 100)
        story.hw(9, 1, 0, 200)
        for row in story.tables["watermarks"]:
            row["partition"] = 1
        verdict = story.judge()
        assert by_name(verdict)["hw-frozen-below-min-isr"] == "not-exercised"
        assert verdict.coverage["hw-observed-below-min-isr"] == 0


def test_the_isr_of_a_moved_partition_is_not_below_the_min_isr_of_another(tmp_path: Path) -> None:
    story = Story(tmp_path)
    story.state(1)
    story.state(1, partition=1, partition_epoch=0)
    story.state(5, replicas=[1], isr=[1])
    story.hw(7, 1, 0, 100)
    story.hw(9, 1, 0, 200)
    for row in story.tables["watermarks"]:
        row["partition"] = 1
    verdict = story.judge()
    assert by_name(verdict)["hw-frozen-below-min-isr"] == "not-exercised"
    assert verdict.coverage["isr-below-min"] == 0


def test_a_partition_with_more_replicas_than_the_first_is_held_to_its_own_count(tmp_path: Path) -> None:
    story = Story(tmp_path, min_isr=3)
    story.state(1, replicas=[1], isr=[1])
    story.state(1, partition=1, partition_epoch=0, replicas=[1, 2, 3], isr=[1, 2])
    story.hw(7, 1, 0, 100)
    story.hw(9, 1, 0, 200)
    for row in story.tables["watermarks"]:
        row["partition"] = 1
    assert status(story) == "violated"


def test_a_fencing_that_no_step_explains_shows_that_the_leader_may_be_late(tmp_path: Path) -> None:
    story = story_of_raise(tmp_path)
    story.broker(4, 3, "fenced")
    assert status(story) == "not-exercised"


@pytest.mark.parametrize(("step", "node"), [("kill", 3), ("pause", 100), ("hold-request", 3)])
def test_a_fencing_that_a_step_explains_excuses_nothing(tmp_path: Path, step: str, node: int) -> None:
    story = story_of_raise(tmp_path, controllers=(100, 101))
    fault(story, step, node, at_s=-8, until_s=-7)
    story.broker(0.5, 3, "fenced")
    order_by_time(story.tables)
    assert status(story) == "violated"


@pytest.mark.parametrize("step", ["kill", "start", "heal"])
def test_a_step_that_ended_long_before_or_stops_no_heartbeats_explains_no_fencing(tmp_path: Path, step: str) -> None:
    story = story_of_raise(tmp_path)
    fault(story, step, 3, at_s=-30, until_s=-20)
    story.broker(4, 3, "fenced")
    assert status(story) == "not-exercised"


def test_a_fencing_long_before_the_shrink_excuses_nothing(tmp_path: Path) -> None:
    story = story_of_raise(tmp_path)
    story.broker(-20, 3, "fenced")
    order_by_time(story.tables)
    assert status(story) == "violated"
