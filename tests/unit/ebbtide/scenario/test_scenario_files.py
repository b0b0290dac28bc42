"""Scenario files: what is accepted, and that a wrong file is refused with all its problems at once."""

from __future__ import annotations

from pathlib import Path

import pytest
from checkout import ROOT
from plain_steps import step_of

from ebbtide.errors import Problems, UsageError
from ebbtide.scenario import catalogue
from ebbtide.scenario.parse import load, parse
from ebbtide.scenario.safety import unknown_releases
from ebbtide.scenario.steps.table import KINDS
from ebbtide.scenario.words import Duration, PartitionName, Role
from ebbtide.scenario.write import text_of

DOCUMENTATION = ROOT / "docs" / "scenario-steps.md"
TEN_MISTAKES = """
name = "Bad Name"
title = 3
description = "x"
kafka = ["3.9.1", "2.8"]
[cluster]
controlers = 2
brokers = "three"
[topics.t]
partitions = 1
replication_factor = 9
[[producers]]
id = 1
topic = "tt"
acks = "most"
count = 10
[[steps]]
step = "kill"
target = "leeder(t-0)"
[[steps]]
step = "wait"
trigger = { acked = 11, after = "soon" }
[[predictions]]
kafka = "newer"
clause = "none"
loss = { cause = "unclean-elections" }
"""


def test_a_file_of_an_editor_that_begins_it_with_a_byte_order_mark_is_read(tmp_path: Path) -> None:
    file = tmp_path / "mine.toml"
    file.write_text(shipped_text("healthy"), "utf-8-sig")
    assert load(file) == catalogue.find("healthy")


def shipped_text(name: str) -> str:
    return catalogue.text_of(name)


def text_with_cuts(one: str, other: str) -> str:
    text = shipped_text("last-replica-standing").replace("[[producers]]", "[topics.u]\n\n[[producers]]")
    groups = '[["followers(t-0)"], ["leader(t-0)", "controllers", "clients"]]'
    return text.replace(groups, f'[["{one}"], ["{other}"]]')


def problems_of(text: str) -> dict[str, str]:
    with pytest.raises(Problems) as caught:
        parse(text, file="x.toml")
    return {str(one.where): one.render() for one in caught.value.problems}


def test_any_text_that_names_nothing_may_be_set() -> None:
    given = '"broker.rack" = "Zürich", "log.flush.interval.messages" = "1", '
    given += '"group.streams.rack.aware.assignment.tags" = "x \\"y\\";", "metrics.recording.level" = ""'
    cluster = f"[cluster]\nbroker_properties = {{ {given} }}\n\n[topics.t]"
    parse(shipped_text("healthy").replace("[topics.t]", cluster), file="x.toml", strict=True)


@pytest.mark.parametrize("name", catalogue.names())
def test_every_shipped_scenario_is_valid_does_nothing_in_vain_and_names_known_releases(name: str) -> None:
    scenario = parse(catalogue.text_of(name), file=name, strict=True)
    assert scenario.name == name
    assert scenario.predictions
    assert unknown_releases(scenario) == []


def test_every_kind_of_step_is_in_a_shipped_scenario() -> None:
    shipped = {step.step for name in catalogue.names() for step in parse(catalogue.text_of(name), file=name).steps}
    assert KINDS.keys() - shipped == set()


def test_all_values_that_do_not_fit_their_types_are_reported_at_once() -> None:
    problems = problems_of(TEN_MISTAKES)
    assert set(problems) == {
        "title",
        "cluster.controlers",
        "cluster.brokers",
        "producers[0].acks",
        "steps[0].target",
        "steps[1].trigger",
        "steps[1].trigger.after",
        "predictions[0].loss.cause",
    }
    assert "did you mean 'controllers'?" in problems["cluster.controlers"]
    assert "did you mean 'leader(TOPIC-PARTITION)'?" in problems["steps[0].target"]
    assert "did you mean 'unclean-election'?" in problems["predictions[0].loss.cause"]
    assert "'three'" in problems["cluster.brokers"]


def test_all_that_a_well_formed_file_means_wrongly_is_reported_at_once() -> None:
    wrong = {
        'topic = "t"': 'topic = "x"',
        "replication_factor = 3": "replication_factor = 9",
        "deadline_s = 120": "deadline_s = 0",
    }
    text = shipped_text("healthy")
    for before, after in wrong.items():
        text = text.replace(before, after)
    assert set(problems_of(text)) == {"producers[0].topic", "topics.t.replication_factor", "steps[0].deadline_s"}


def test_names_and_releases_that_are_none_are_reported_at_once() -> None:
    text = shipped_text("healthy").replace('name = "healthy"', 'name = "Not It"').replace('">=3.3"', '"3.3"')
    assert set(problems_of(text.replace("kafka = [", 'kafka = ["4.3", '))) == {
        "name",
        "kafka[0]",
        "predictions[0].kafka",
    }


def test_a_problem_that_only_follows_from_another_is_not_reported() -> None:
    text = shipped_text("healthy").replace('step = "wait"', 'step = "wiat"')
    assert set(problems_of(text)) == {"steps[0].step"}


WAIT = "trigger = { acked = 100000 }"
STEP = 'trigger = { hw_at_least = { partition = "t-2", offset = 9 } }'
WAITING = f'step = "wait"\n{STEP}'


@pytest.mark.parametrize(
    ("before", "after", "found"),
    [
        (WAITING, 'step = "explode"\ntarget = "leader(t-0)"', {"steps[0].step"}),
        (WAITING, 'step = "kill"\ntarget = "leader(t-0)"\n[[steps]]\nstep = "heal"\ntarget = 3', {"steps[1].target"}),
        (
            WAITING,
            'step = "kill"\ntarget = "leader(t-0)"\nname = 3\n[[steps]]\nstep = "start"\ntarget = "step(x)"',
            {"steps[0].name"},
        ),
        (WAITING, 'step = "kill"\ntarget = "leader(t-7)"', {"steps[0].target"}),
        (WAITING, 'step = "partition"\ngrops = [["brokers"], ["clients"]]', {"steps[0].grops"}),
        (WAITING, 'step = "partition"\nfrom = "brokers"', {"steps[0].from"}),
        (
            WAITING,
            'step = "wait"\ntrigger = { acked = "all", after = "2s" }',
            {"steps[0].trigger.acked", "steps[0].trigger"},
        ),
        (
            WAITING,
            'step = "wait"\ntrigger = { isr = { partition = "t-0", size = "2" } }',
            {"steps[0].trigger.isr.size"},
        ),
        ("partitions = 3", "partitions = 0", {"topics.t.partitions"}),
        ("partitions = 3", 'partitions = "3"', {"topics.t.partitions"}),
        ('acks = "all"\ncount = 100000', 'acks = "most"', {"producers[0].acks"}),
        ("count = 100000\n", 'rate_per_s = "fast"\n', {"producers[0].rate_per_s"}),
        (
            "[topics.t]",
            '[cluster]\nbrokers = "five"\n[topics.u]\nreplication_factor = 5\n[topics.t]',
            {"cluster.brokers"},
        ),
    ],
)
def test_a_mistake_hides_what_follows_from_it(before: str, after: str, found: set[str]) -> None:
    text = shipped_text("healthy").replace(WAIT, STEP)
    assert before in text
    assert set(problems_of(text.replace(before, after))) == found


def test_what_the_harness_sets_itself_and_levels_that_no_release_has_are_refused() -> None:
    cluster = '[cluster]\nbroker_properties = { "node.id" = "7" }\nfeatures = { "metadata.version" = 99 }\n\n[topics.t]'
    text = shipped_text("healthy").replace('"3.9.1", "4.3.1"', '"3.4.1"').replace("[topics.t]", cluster)
    with pytest.raises(Problems) as caught:
        parse(text, file="x.toml", to_run=True)
    problems = {str(one.where): one.render() for one in caught.value.problems}
    assert set(problems) == {"cluster.broker_properties.node.id", "cluster.features"}
    assert "the harness sets it itself" in problems["cluster.broker_properties.node.id"]
    assert "metadata.version = 99" in problems["cluster.features"]


def test_two_steps_of_one_name_are_refused() -> None:
    text = shipped_text("last-replica-standing").replace('name = "leader-loses-power"', 'name = "cut-followers"')
    assert "name taken" in problems_of(text.replace("step(leader-loses-power)", "step(cut-followers)"))["steps[1].name"]


def test_min_isr_may_exceed_the_replication_factor_but_has_one_place_only() -> None:
    text = shipped_text("healthy").replace("min_isr = 2", "min_isr = 4")
    assert parse(text, file="x.toml").topics["t"].min_isr == 4
    text = text.replace("min_isr = 4", 'min_isr = 4\nconfig = { "min.insync.replicas" = "1" }')
    assert "min_isr in the topic" in problems_of(text)["topics.t.config"]


def test_a_file_that_is_not_there_is_one_usage_error(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="cannot read"):
        load(tmp_path / "none.toml")


def test_validating_suggests_a_shipped_file_and_running_suggests_to_validate(tmp_path: Path) -> None:
    file = tmp_path / "wrong.toml"
    file.write_text("name = 3")
    with pytest.raises(Problems) as validating:
        load(file)
    with pytest.raises(Problems) as running:
        catalogue.find(str(file))
    assert validating.value.next == "ebbtide scenarios show healthy    (an example of a whole file)"
    assert running.value.next == f"ebbtide scenarios check {file}"


@pytest.mark.parametrize("number", ["nan", "inf", "-inf", "1" + "0" * 400, f"{2**63}"])
@pytest.mark.parametrize(
    ("where", "before"),
    [("settle_s", "kafka = ["), ("cluster.session_timeout_s", "[topics.t]"), ("producers[0].rate_per_s", "count = ")],
)
def test_a_number_that_is_none_is_no_number_of_a_scenario(where: str, before: str, number: str) -> None:
    table, _, key = where.rpartition(".")
    added = f"[{table}]\n{key} = {number}\n" if table == "cluster" else f"{key} = {number}\n"
    told = problems_of(catalogue.text_of("healthy").replace(before, added + before))
    assert list(told) == [where]
    assert "allowed: a finite number" in told[where]


@pytest.mark.parametrize("target", ["broker(²)", "broker(99999999999)", "leader(t-²)", f"leader(t-{'9' * 500})"])
def test_what_python_takes_for_a_digit_is_not_always_one_of_a_role(target: str) -> None:
    step = f'\n[[steps]]\nstep = "kill"\ntarget = "{target}"\n'
    assert "steps[1].target" in problems_of(catalogue.text_of("healthy") + step)


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("clients", "clients"),
        ("brokers", "followers(t-0)"),
        ("broker(1)", "brokers"),
        ("isr(t-0)", "leader(t-0)"),
        ("followers(t-0)", "isr(t-0)"),
        ("replicas(t-0)", "elr(t-0)"),
        ("controllers", "controller"),
    ],
)
def test_groups_that_share_a_node_are_refused_with_the_two_roles(one: str, other: str) -> None:
    problems = problems_of(text_with_cuts(one, other))
    assert set(problems) == {"steps[0].groups"}
    assert f"'{one}' in groups[0] and '{other}' in groups[1]" in problems["steps[0].groups"]


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("leader(t-0)", "followers(t-0)"),
        ("isr(t-0)", "elr(t-0)"),
        ("isr(t-0)", "leader(u-0)"),
        ("brokers", "controllers"),
        ("brokers", "clients"),
        ("broker(1)", "broker(2)"),
    ],
)
def test_groups_that_may_be_apart_are_accepted(one: str, other: str) -> None:
    step = parse(text_with_cuts(one, other), file="x.toml").steps[0]
    assert step.groups == step_of("partition", groups=[[one], [other]]).groups


def test_the_steps_shown_in_the_documentation_are_valid() -> None:
    shown = DOCUMENTATION.read_text("utf-8").split("```toml\n")[1].split("```")[0]
    before, rest = shipped_text("healthy").split("[[steps]]")
    text = before + shown + rest[rest.index("[[predictions]]") :]
    assert [step.step for step in parse(text, file="x.toml").steps] == ["kill", "pause", "resume", "partition"]


def test_step_roles_reach_back_but_not_forward() -> None:
    text = shipped_text("last-replica-standing").replace('name = "leader-loses-power"', 'name = "other"')
    problems = problems_of(text)
    assert set(problems) == {"steps[2].target", "steps[3].trigger.broker_is.broker"}
    assert "cut-followers, other" in problems["steps[2].target"]


def test_a_scenario_written_out_with_its_defaults_reads_back_the_same() -> None:
    scenario = catalogue.find("last-replica-standing")
    assert parse(text_of(scenario), file="filled.toml") == scenario


@pytest.mark.parametrize(
    ("text", "parts"),
    [
        ("leader(t-0)", ("leader", "t-0", None, PartitionName("t-0"))),
        ("broker(2)", ("broker", "2", 2, None)),
        ("clients", ("clients", None, None, None)),
    ],
)
def test_roles_are_parsed(text: str, parts: tuple[object, ...]) -> None:
    role = Role(text)
    assert (role.kind, role.argument, role.broker, role.partition) == parts
    assert str(role) == text


def test_durations_need_their_unit() -> None:
    assert [Duration(text).seconds for text in ("500ms", "2s", "1.5m")] == [0.5, 2.0, 90.0]
    with pytest.raises(UsageError, match="with its unit"):
        Duration("2")


@pytest.mark.parametrize("lists", ["[[1, 2]]", "[[1, 2, 2]]", "[[1, 2, 4]]", "[[1, 2, 3], [3, 2, 1]]"])
def test_an_assignment_that_does_not_fit_the_topic_is_refused(lists: str) -> None:
    text = shipped_text("last-replica-standing").replace("min_isr = 2\n", f"min_isr = 2\nassignment = {lists}\n", 1)
    assert set(problems_of(text)) == {"topics.t.assignment"}
