"""A dynamic quorum that no release forms, and changes of voters that Kafka surely refuses, are mistakes of the file."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from scenario_problems import problems

from ebbtide.errors import UsageError
from ebbtide.scenario.model import ClusterSpec
from ebbtide.scenario.validate_quorum import validate_quorum_on

DYNAMIC = 'controllers = 3\nquorum = "dynamic"\n'
ONE_OBSERVER = DYNAMIC + "initial_voters = 2"


def found(*steps: str, cluster: str = DYNAMIC, kafka: str = "4.3.1") -> dict[str, str]:
    settings = "".join(f"cluster.{line}\n" for line in cluster.splitlines())
    return problems(*steps, cluster=settings, kafka=kafka, strict=True)


def add(target: str, more: str = "") -> str:
    return f'step = "add-voter"\ntarget = "{target}"\n{more}'


def remove(target: str, more: str = "") -> str:
    return f'step = "remove-voter"\ntarget = "{target}"\n{more}'


@pytest.mark.parametrize(
    "cluster", [DYNAMIC, ONE_OBSERVER, 'controllers = 2\nquorum = "dynamic"', 'controllers = 3\nquorum = "static"']
)
def test_quorums_that_a_small_machine_carries(cluster: str) -> None:
    assert found(cluster=cluster) == {}


def test_one_error_names_every_release_without_dynamic_quorums() -> None:
    problem = found(kafka="3.4.1 3.9.1 3.8.1")
    assert list(problem) == ["cluster.quorum"]
    assert "3.4.1, 3.8.1" in problem["cluster.quorum"]
    assert "3.9.0 or later" in problem["cluster.quorum"]
    assert list(found(cluster=DYNAMIC + 'formed_on = "3.8.1"')) == ["cluster.quorum"]


@pytest.mark.parametrize(
    ("kafka", "spec", "is_refused"),
    [
        ("3.8.1", ClusterSpec(controllers=3, quorum="dynamic"), True),
        ("3.8.1", ClusterSpec(controllers=3), False),
        ("3.9.0", ClusterSpec(controllers=3, quorum="dynamic"), False),
        ("4.3.1", ClusterSpec(controllers=3, quorum="dynamic", formed_on="3.7.2"), True),
        ("4.3.1", ClusterSpec(controllers=3, quorum="dynamic", features={"metadata.version": 20}), True),
        ("4.3.1", ClusterSpec(controllers=3, quorum="dynamic", features={"metadata.version": 21}), False),
    ],
)
def test_a_release_of_the_command_line_is_checked_too(kafka: str, spec: ClusterSpec, is_refused: bool) -> None:
    if is_refused:
        with pytest.raises(UsageError, match="dynamic quorum"):
            validate_quorum_on(kafka, spec)
    else:
        validate_quorum_on(kafka, spec)


@pytest.mark.parametrize(
    "steps",
    [
        (remove("controller(101)"), add("controller(101)")),
        (remove("controller", 'name = "a"'), add("step(a)")),
        (remove("controller"), remove("controller")),
        (add("controller(101)", "expect_error = 'DUPLICATE_VOTER'"),),
        (remove("controller(101)", "optional = true"), add("controller(101)")),
        # Whom the first step removes is not known, and the second may add it again.
        (remove("controller"), add("controller(102)")),
        ('step = "kill"\ntarget = "controller(101)"', remove("controller(101)")),
    ],
)
def test_changes_that_kafka_may_accept(steps: tuple[str, ...]) -> None:
    assert found(*steps) == {}


@pytest.mark.parametrize(
    ("steps", "said"),
    [
        ((add("controller(101)"),), "a voter already"),
        ((add("controller"),), "a voter already"),
        ((remove("controller(101)"), add("controller(101)"), add("controller(101)")), "a voter already"),
        ((remove("controller(101)"), remove("controller(101)")), "no voter"),
        ((remove("controller"), remove("controller"), remove("controller")), "the last voter"),
        ((remove("controllers"),), "not one controller"),
        ((add("broker(1)"),), "not one controller"),
        (('step = "kill"\ntarget = "controller(102)"\nname = "k"', add("step(k)")), "a voter already"),
    ],
)
def test_a_change_that_kafka_surely_refuses_is_a_mistake(steps: tuple[str, ...], said: str) -> None:
    problem = found(*steps)
    assert said in problem[f"steps[{len(steps) - 1}].target"], problem


def test_an_observer_is_no_voter_until_it_is_added() -> None:
    assert found(add("controller(102)"), cluster=ONE_OBSERVER) == {}
    assert "no voter" in found(remove("controller(102)"), cluster=ONE_OBSERVER)["steps[0].target"]
    single = found(remove("controller(100)"), cluster=DYNAMIC + "initial_voters = 1")
    assert "the last voter" in single["steps[0].target"]


def test_a_controller_that_is_down_cannot_catch_up() -> None:
    down = 'step = "kill"\ntarget = "controller(102)"'
    assert "down" in found(down, add("controller(102)"), cluster=ONE_OBSERVER)["steps[1].target"]


@pytest.mark.parametrize("quorum", ["", 'quorum = "static"'])
def test_the_voters_of_a_static_quorum_cannot_change(quorum: str) -> None:
    problem = found(remove("controller(101)"), add("controller(101)"), cluster=f"controllers = 3\n{quorum}")
    assert list(problem) == ["steps[0].step", "steps[1].step"]
    assert "quorum = 'dynamic'" in problem["steps[0].step"]


def test_a_controller_that_the_cluster_lacks_is_out_of_range() -> None:
    assert "controller(100) to controller(102)" in found(remove("controller(103)"))["steps[0].target"]


@pytest.mark.parametrize("change", [add, remove])
def test_a_step_that_acted_on_other_nodes_names_no_controller(change: Callable[[str], str]) -> None:
    for target in ("broker(1)", "brokers", "controllers", "leader(t-0)"):
        killed = f'name = "down"\nstep = "pause"\ntarget = "{target}"'
        refused = found(killed, change("step(down)"))
        assert list(refused) == ["steps[1].target"], target
        assert "not one controller" in refused["steps[1].target"]
    again = 'name = "again"\nstep = "resume"\ntarget = "step(down)"'
    assert list(found(killed, again, change("step(again)"))) == ["steps[2].target"]


def test_a_step_that_acted_on_one_controller_names_it() -> None:
    paused = 'name = "down"\nstep = "pause"\ntarget = "controller"'
    assert found(paused, remove("step(down)")) == {}
