"""Random schedules have dynamic quorums and several log directories, and steps that fit them."""

from __future__ import annotations

from random import Random

import msgspec
import pytest
from plain_steps import step_of

from ebbtide.scenario.model import ClusterSpec, Quorum
from ebbtide.scenario.steps.admin import VoterStep
from ebbtide.scenario.steps.disk import DirectoryStep
from ebbtide.scenario.steps.step import StepSpec
from harness.random.drawing import draw, with_steps


def clusters(kafka: str, **levels: int) -> list[ClusterSpec]:
    return [draw(seed, kafka=kafka, features=levels).cluster for seed in range(150)]


@pytest.mark.parametrize(
    ("kafka", "features", "dynamic", "several"),
    [
        ("3.4.1", {}, False, False),
        ("3.7.2", {}, False, True),
        ("3.9.1", {}, True, True),
        ("3.9.1", {"metadata.version": 14}, False, False),
        ("4.3.1", {}, True, True),
    ],
)
def test_quorums_and_log_directories_are_drawn_where_the_release_and_its_levels_have_them(
    kafka: str, features: dict[str, int], dynamic: bool, several: bool
) -> None:
    drawn = clusters(kafka, **features)
    assert any(one.quorum == "dynamic" for one in drawn) == dynamic
    assert any(one.log_dirs is not None for one in drawn) == several


def test_one_log_directory_is_named_only_where_brokers_have_several() -> None:
    faults = [
        step_of("wipe-disk", target="broker(2)", directory=3),
        step_of("fail-disk", target="broker(1)", directory=1),
    ]

    def directories(log_dirs: int | None) -> list[int | None]:
        setting = draw(1, kafka="4.3.1")
        cluster = msgspec.structs.replace(setting.cluster, log_dirs=log_dirs)
        steps = with_steps(msgspec.structs.replace(setting, cluster=cluster), [*faults], Random(1)).steps
        return [step.directory for step in steps if isinstance(step, DirectoryStep)]

    assert directories(None) == [None, None]
    assert directories(2) == [None, 1]
    assert directories(3) == [3, 1]


def test_a_voter_is_removed_and_added_only_in_a_dynamic_quorum_and_never_the_last() -> None:
    remove, add = step_of("remove-voter", target="controller(100)"), step_of("add-voter", target="controller(100)")

    def kept(*slots: StepSpec, quorum: Quorum | None = "dynamic", initial: int | None = None) -> list[str]:
        setting = draw(1, kafka="4.3.1")
        cluster = msgspec.structs.replace(setting.cluster, controllers=3, quorum=quorum, initial_voters=initial)
        steps = with_steps(msgspec.structs.replace(setting, cluster=cluster), [*slots], Random(1)).steps
        return [one.step for one in steps if isinstance(one, VoterStep)]

    assert kept(remove, add, quorum=None) == []
    assert kept(add, remove, add) == ["remove-voter", "add-voter"]
    assert kept(remove, initial=1) == []
    assert kept(step_of("add-voter", target="controller(101)"), remove, initial=1) == ["add-voter", "remove-voter"]
