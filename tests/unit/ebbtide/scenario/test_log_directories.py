"""Brokers with several log directories: what a scenario may ask for, and where each mistake is reported."""

from __future__ import annotations

import pytest

from ebbtide.errors import Problems
from ebbtide.scenario.parse import parse

FILE = """
name = "n"
title = "t"
kafka = {kafka}
[cluster]
{cluster}
[topics.t]
[[producers]]
id = 1
topic = "t"
rate_per_s = 10
"""
FAIL = '[[steps]]\nstep = "fail-disk"\ntarget = "{0}"\ndirectory = {1}\n'
MOVE = '[[steps]]\nstep = "move-replica"\npartition = "t-0"\ntarget = "{0}"\ndirectory = {1}\n'
PLACE = '{{ partition = "t-0", broker = "{0}", directory = {1} }}'
AWAIT = '[[steps]]\nstep = "wait"\ntrigger = {{ in_directory = ' + PLACE + " }}\n"


def problems(steps: str = "", *, cluster: str = "log_dirs = 2", kafka: str = '["3.9.1", "4.3.1"]') -> dict[str, str]:
    """What is wrong, by the place."""
    try:
        parse(FILE.format(kafka=kafka, cluster=cluster) + steps, file="f", to_run=True)
    except Problems as refused:
        return {str(one.where).partition(" (line")[0]: f"{one.what}: {one.got}" for one in refused.problems}
    return {}


@pytest.mark.parametrize("steps", [FAIL, MOVE, AWAIT])
def test_a_step_may_name_each_directory_of_its_broker(steps: str) -> None:
    assert problems(steps.format("broker(1)", 1)) == problems(steps.format("broker(1)", 2)) == {}


@pytest.mark.parametrize(("count", "ok"), [(0, False), (1, True), (3, True), (4, False)])
def test_a_broker_has_one_to_three_directories(count: int, ok: bool) -> None:
    assert problems(cluster=f"log_dirs = {count}") == ({} if ok else {"cluster.log_dirs": f"out of range: {count}"})


def test_all_releases_without_kip_858_are_one_error() -> None:
    found = problems(kafka='["3.6.2", "3.4.1", "3.7.0"]')
    assert list(found) == ["cluster.log_dirs"]
    assert found["cluster.log_dirs"].endswith("2, with Kafka 3.6.2 (kafka), 3.4.1 (kafka)")
    assert problems(kafka='["3.6.2"]', cluster="log_dirs = 1") == {}


def test_a_cluster_formed_on_an_older_release_is_refused_too() -> None:
    found = problems(cluster='log_dirs = 2\nformed_on = "3.6.2"')
    assert "3.6.2 (cluster.formed_on)" in found["cluster.log_dirs"]


def test_a_metadata_version_without_assignments_is_refused() -> None:
    cluster = 'log_dirs = 2\nfeatures = {{ "metadata.version" = {0} }}'
    assert "metadata.version = 16" in problems(cluster=cluster.format(16), kafka='["3.9.1"]')["cluster.log_dirs"]
    assert problems(cluster=cluster.format(17), kafka='["3.9.1"]') == {}


@pytest.mark.parametrize(
    ("steps", "where"),
    [(FAIL, "directory"), (MOVE, "directory"), (AWAIT, "trigger.in_directory.directory")],
)
def test_a_directory_that_brokers_do_not_have_is_reported_at_its_key(steps: str, where: str) -> None:
    assert problems(steps.format("broker(1)", 3)) == {f"steps[0].{where}": "out of range: 3"}
    alone = problems(steps.format("broker(1)", 1), cluster="brokers = 3")
    assert alone == {f"steps[0].{where}": "brokers have only one log directory: 1"}


@pytest.mark.parametrize("steps", [FAIL, MOVE])
def test_controllers_have_no_second_directory(steps: str) -> None:
    assert list(problems(steps.format("controller", 2))) == ["steps[0].target"]


def test_a_fault_without_a_directory_covers_all_of_them() -> None:
    assert problems('[[steps]]\nstep = "fail-disk"\ntarget = "broker(1)"\n') == {}


START = '[[steps]]\nstep = "start"\ntarget = "broker(1)"\n'
KILL_AND_START = START.replace("start", "kill") + START
RESTART = '[[steps]]\nstep = "restart"\ntarget = "broker(1)"\n'
ROLLING = '[[steps]]\nstep = "rolling"\nmode = "restart"\n'


@pytest.mark.parametrize("start", [KILL_AND_START, RESTART, ROLLING])
def test_a_broker_starts_while_a_further_log_directory_is_dead_and_not_while_its_first_is(start: str) -> None:
    (problem,) = problems(FAIL.format("broker(1)", 1) + start).values()
    assert "of a node with a volume that takes no writes" in problem
    assert problems(FAIL.format("broker(1)", 2) + start) == {}


def test_a_broker_whose_directories_all_died_starts_after_mend_disk() -> None:
    failed = '[[steps]]\nstep = "fail-disk"\ntarget = "broker(1)"\n'
    mend = '[[steps]]\nstep = "mend-disk"\ntarget = "broker(1)"\n'
    assert list(problems(failed + START)) == ["steps[1].target"]
    assert problems(failed + mend + START) == {}


def test_a_second_fault_of_a_broker_with_a_dead_directory_is_refused() -> None:
    (where,) = problems(FAIL.format("broker(1)", 2) + FAIL.format("broker(1)", 1))
    assert where == "steps[1].target"
