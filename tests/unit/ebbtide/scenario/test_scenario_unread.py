"""Every mistake of a file is reported at once, also beside values that cannot be read."""

from __future__ import annotations

import random
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import tomli_w
from scenario_problems import problems

from ebbtide.errors import Problems
from ebbtide.scenario import catalogue
from ebbtide.scenario.parse import load, parse
from ebbtide.scenario.parts import TablePart
from ebbtide.scenario.steps.step import TargetStep
from ebbtide.scenario.steps.table import help_of_kind

PARTITION = 'step = "partition"\ngroups = [["leader(t-0)"], ["followers(t-0)"]]'
FLAP = 'step = "flap"\ntimes = 2\nperiod = "2s"\ngroups = [["leader(t-0)"], ["followers(t-0)"]]'


@pytest.mark.parametrize(
    ("steps", "unread", "where"),
    [
        pytest.param(
            (PARTITION, 'step = "kill"\ntarget = 5', FLAP),
            "steps[1].target",
            "steps[2].step",
            id="a flap while a cut is in force, after a step on an unknown node",
        ),
        pytest.param(
            (PARTITION, 'step = "kil"\ntarget = "broker(1)"', FLAP),
            "steps[1].step",
            "steps[2].step",
            id="a flap while a cut is in force, after a step of unknown kind that cannot be a heal",
        ),
        pytest.param(
            ('step = "heeal"\ndeadline_s = 1\ntrigger = { after = "2s" }',),
            "steps[0].step",
            "steps[0].trigger.after",
            id="a trigger after the deadline, of a step of unknown kind",
        ),
        pytest.param(
            ('step = "wait"\ntrigger = { hw_at_least = { partition = "t-0", offset = 11 } }', 'step = "heeal"'),
            "steps[1].step",
            "steps[0].trigger.hw_at_least.offset",
            id="a HW above all records, beside a step of unknown kind that sends none twice",
        ),
        pytest.param(
            ('step = "wait"\ntrigger = { replicas = { partition = "t-0", are = ["controllers", 5] } }',),
            "steps[0].trigger.replicas.are[1]",
            "steps[0].trigger.replicas.are[0]",
            id="a role of no broker beside another that cannot be read",
        ),
        pytest.param(
            ('step = "partition"\ngroups = [["broker(1)", 5], ["broker(1)", "broker(9)"]]',),
            "steps[0].groups[0][1]",
            "steps[0].groups[1][1]",
            id="an unknown broker beside a role that cannot be read",
        ),
        pytest.param(
            ('step = "partition"\ngroups = [["broker(1)", 5], ["broker(1)"]]',),
            "steps[0].groups[0][1]",
            "steps[0].groups",
            id="groups with a common node beside a role that cannot be read",
        ),
        pytest.param(
            ('step = "isolate"\ntarget = "broker(1)"\nfrom = ["broker(1)"]\nname = 5',),
            "steps[0].name",
            "steps[0].from",
            id="a node cut from itself, in a step whose name cannot be read",
        ),
        pytest.param(
            (
                'step = "wait"\ntrigger = { isr = { partition = "t-0", size = 4 } }',
                'step = "rassign"\npartition = "t-0"\ntarget = "broker(1)"',
            ),
            "steps[1].step",
            "steps[0].trigger.isr.size",
            id="an ISR above the replicas, beside a step of unknown kind that reassigns nothing",
        ),
        pytest.param(
            ('step = "start"\ntarget = "step(nobody)"', 'step = "kill"\ntarget = "broker(1)"\nname = 5'),
            "steps[1].name",
            "steps[0].target",
            id="an unknown name, before a step whose name cannot be read",
        ),
    ],
)
def test_a_mistake_beside_a_value_that_cannot_be_read_is_reported_in_the_same_run(
    steps: tuple[str, ...], unread: str, where: str
) -> None:
    found = problems(*steps, strict=True, producer="idempotent = true")
    assert {unread, where} <= found.keys(), found


@pytest.mark.parametrize(
    ("steps", "where"),
    [
        pytest.param((PARTITION, 'step = "heeal"', FLAP), "steps[1].step", id="it may be the heal before the flap"),
        pytest.param(
            ('step = "kil"\ntarget = 5', 'step = "start"\ntarget = "broker(1)"'), "steps[0].step", id="a kill"
        ),
        pytest.param(('step = "partitoin"', 'step = "heal"'), "steps[0].step", id="the cut that a heal needs"),
    ],
)
def test_no_mistake_is_reported_that_depends_on_a_step_of_unknown_kind(steps: tuple[str, ...], where: str) -> None:
    assert {one for one in problems(*steps) if not one.startswith(where.removesuffix(".step"))} == set()


def test_a_lone_mistake_in_cluster_is_reported_where_predictions_ask_for_feature_levels() -> None:
    levels = 'features = { "eligible.leader.replicas.version" = 1 }'
    found = problems(cluster='cluster = { brokers = "three" }\n', strict=True, prediction=levels)
    assert set(found) == {"cluster.brokers"}


def test_a_rule_is_skipped_if_a_field_that_it_reads_could_not_be_read() -> None:
    def rule(*, target: str) -> Iterator[Any]:
        yield target

    assert list(TablePart(type=TargetStep, values={"target": "x"}).check(rule)) == ["x"]
    assert list(TablePart(type=TargetStep, values={}, unread=frozenset({"target"})).check(rule)) == []


def test_a_rule_that_reads_an_unknown_field_fails() -> None:
    def rule(*, targte: str) -> Iterator[Any]:
        yield targte

    with pytest.raises(KeyError):
        list(TablePart(type=TargetStep, values={"target": "x"}).check(rule))


@pytest.mark.parametrize(
    ("count", "next"),
    [(100_000, help_of_kind("wait")), (-1, "ebbtide scenarios show healthy    (an example of a whole file)")],
)
def test_validating_suggests_the_help_of_a_kind_if_only_steps_are_wrong(tmp_path: Path, count: int, next: str) -> None:
    file = tmp_path / "wrong.toml"
    text = catalogue.text_of("healthy").replace("deadline_s = 120", "deadline_s = -1")
    file.write_text(text.replace("count = 100000", f"count = {count}"))
    with pytest.raises(Problems) as found:
        load(file)
    assert found.value.next == next


def test_validating_suggests_the_list_of_kinds_if_only_a_kind_is_wrong(tmp_path: Path) -> None:
    file = tmp_path / "wrong.toml"
    file.write_text(catalogue.text_of("healthy").replace('step = "wait"', 'step = "wate"'))
    with pytest.raises(Problems) as found:
        load(file)
    assert str(found.value.next).startswith("ebbtide cluster fault --help ")


@pytest.mark.parametrize(
    ("text", "where", "says"),
    [
        ("[[cluster]]\nbrokers = 3", "cluster", "a table (a table begins with [cluster])"),
        ('[steps]\nstep = "kill"', "steps", "a list (each element of the list begins with [[steps]])"),
        (
            '[[steps]]\nstep = "wait"\ntrigger = { after = 5 }',
            "steps[0].trigger.after",
            "quotes: how long, e.g. '500ms'",
        ),
        (
            '[[steps]]\nstep = "wait"\ntrigger = { in_directory = "t-0" }',
            "steps[0].trigger.in_directory",
            "a table with broker, directory",
        ),
        ('[[steps]]\nstep = "upgrade"\ntarget = "brokers"', "steps[0].to", "a Kafka release, e.g. '4.3.1'"),
    ],
)
def test_a_value_of_the_wrong_shape_is_answered_with_the_right_shape(text: str, where: str, says: str) -> None:
    with pytest.raises(Problems) as found:
        parse(f"{catalogue.text_of('healthy').partition('[[steps]]')[0]}{text}\n", file="x.toml")
    (problem,) = found.value.problems
    assert (problem.where, says in str(problem.allowed)) == (where, True), problem.render()


def test_a_number_of_brokers_that_no_cluster_has_is_one_mistake() -> None:
    with pytest.raises(Problems) as found:
        parse(
            catalogue.text_of("last-replica-standing").replace("[topics.t]", "[cluster]\nbrokers = 0\n\n[topics.t]"),
            file="x",
        )
    assert [one.where for one in found.value.problems] == ["cluster.brokers"]


@pytest.mark.parametrize("name", catalogue.names())
def test_a_value_of_another_type_anywhere_in_a_scenario_is_reported_at_its_place(name: str) -> None:
    raw = tomllib.loads(catalogue.text_of(name))
    for path in random.Random(name).sample([one for one in _places(raw, ()) if one], 12):
        wrong = tomllib.loads(catalogue.text_of(name))
        holder = wrong
        for key in path[:-1]:
            holder = holder[key]
        holder[path[-1]] = 5 if isinstance(holder[path[-1]], str) else "%%"
        with pytest.raises(Problems) as caught:
            parse(tomli_w.dumps(wrong), file=name, strict=True)
        assert any(str(one.where).startswith(str(path[0])) for one in caught.value.problems), caught.value


def _places(value: Any, path: tuple[Any, ...]) -> Iterator[tuple[Any, ...]]:
    yield path
    for key, one in value.items() if isinstance(value, dict) else enumerate(value if isinstance(value, list) else ()):
        yield from _places(one, (*path, key))
