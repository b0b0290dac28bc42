"""An unknown key or setting lists what is allowed in its place, and no more."""

from __future__ import annotations

import pytest

from ebbtide.errors import Problems
from ebbtide.scenario import catalogue
from ebbtide.scenario.client_libraries import ClientLibrary
from ebbtide.scenario.parse import parse


def problems_of(text: str) -> dict[str, str]:
    with pytest.raises(Problems) as caught:
        parse(text, file="x.toml")
    return {str(one.where): one.render() for one in caught.value.problems}


def test_an_unknown_key_of_a_step_lists_the_keys_of_its_kind() -> None:
    step = '\n[[steps]]\nstep = "{0}"\ntarget = "broker(1)"\ndelai = "1s"\n'
    known = problems_of(catalogue.text_of("healthy") + step.format("kill"))["steps[1].delai"]
    assert "allowed: deadline_s, name, step, target, trigger\n" in known + "\n"
    slow = problems_of(catalogue.text_of("healthy") + step.format("slow-disk"))["steps[1].delai"]
    assert "delay, directory, name, period, step, target, trigger (did you mean 'delay'?)" in slow
    unknown = problems_of(catalogue.text_of("healthy") + step.format("kilt"))["steps[1].delai"]
    assert "allowed: delay, " in unknown
    assert "in all), see docs/scenario-steps.md" in unknown


def client_problem(client: ClientLibrary, name: str) -> str:
    producer = f'[[producers]]\nclient = "{client}"\nproperties = {{ "{name}" = "1" }}\n'
    text = catalogue.text_of("healthy").replace("[[producers]]\n", producer, 1)
    return problems_of(text)[f"producers[0].properties.{name}"]


@pytest.mark.parametrize(("client", "near"), [("java", "retries"), ("librdkafka", "batch.size")])
def test_an_unknown_setting_of_a_client_names_the_one_that_was_meant(client: ClientLibrary, near: str) -> None:
    assert f"(did you mean {near}?)" in client_problem(client, f"{near}s")


@pytest.mark.parametrize("client", ["librdkafka", "java"])
def test_a_setting_that_is_a_key_of_the_producer_points_to_the_key(client: ClientLibrary) -> None:
    assert "Kafka's linger.ms is linger_ms here, beside properties" in client_problem(client, "linger.ms")


def test_one_text_in_place_of_a_list_is_shown_as_a_list() -> None:
    told = problems_of('kafka = "4.3.1"\n')["kafka"]
    assert told.endswith('allowed: a list, such as ["4.3.1"]')


@pytest.mark.parametrize(
    ("before", "after", "where", "allowed"),
    [
        ('acks = "all"', "acks = 1", "producers[0].acks", '"0" | "1" | "all" (in quotes: "1")'),
        ("count = 100000", 'count = "9"', "producers[0].count", "a whole number (without quotes: 9)"),
        ("min_isr = 2", 'config = { "segment.bytes" = 9 }', "topics.t.config.segment.bytes", 'a string in quotes: "9"'),
        ("trigger = { acked = 100000 }", 'trigger = "2s"', "steps[0].trigger", "a table, such as { after = '2s' }"),
        ("min_isr = 2", "config = { compact = true }", "topics.t.config.compact", 'a string in quotes: "true"'),
        ('acks = "all"', "acks = 'ALL'", "producers[0].acks", '"0" | "1" | "all" (did you mean \'all\'?)'),
        (
            'step = "wait"',
            'step = "reassign"\npartition = "t-0"\nreplicas = "broker(1), broker(2)"',
            "steps[0].replicas",
            'a list, such as ["broker(1)", "broker(2)"]',
        ),
        (
            'kafka = ">=3.3"',
            'kafka = ">=3.3 <4.1"',
            "predictions[0].kafka",
            "e.g. '>=3.7,<4.1' (did you mean '>=3.3,<4.1'?)",
        ),
        ('kafka = ">=3.3"', 'kafka = "new"', "predictions[0].kafka", "e.g. '>=3.7,<4.1'"),
        ("trigger = { acked = 100000 }", "trigger = 2", "steps[0].trigger", "a table, such as { acked = 1000 }"),
        (
            'step = "wait"',
            'step = "partition"\ngroups = ["broker(1)", ["broker(2)"]]',
            "steps[0].groups[0]",
            'a list, such as ["broker(1)"]',
        ),
        (
            'loss = { committed = "none", uncommitted = "none" }',
            'loss = "none"',
            "predictions[0].loss",
            "a table with some of committed, uncommitted, acks, cause, at_least, none_on, commits",
        ),
        ('kafka = ">=3.3"', 'kafka = "4.3.1"', "predictions[0].kafka", "e.g. '>=3.7,<4.1' (did you mean '==4.3.1'?)"),
    ],
)
def test_a_wrong_value_is_shown_as_the_file_would_have_it(before: str, after: str, where: str, allowed: str) -> None:
    text = catalogue.text_of("healthy")
    assert before in text
    assert problems_of(text.replace(before, after, 1))[where].splitlines()[-1] == f"  allowed: {allowed}"


@pytest.mark.parametrize("typed", ["1.5", "9223372036854775808", "9" * 500, "007", "1e3", "-"])
def test_a_text_that_the_key_takes_neither_without_quotes_gets_no_such_advice(typed: str) -> None:
    text = catalogue.text_of("healthy").replace("count = 100000", f'count = "{typed}"', 1)
    assert problems_of(text)["producers[0].count"].endswith("allowed: a whole number")


@pytest.mark.parametrize("typed", ["1.5", "-3", "0", "9223372036854775807"])
def test_a_number_in_quotes_is_shown_without_them_where_a_fraction_is_allowed(typed: str) -> None:
    text = catalogue.text_of("healthy").replace("[topics.t]", f'[cluster]\nsession_timeout_s = "{typed}"\n[topics.t]')
    assert problems_of(text)["cluster.session_timeout_s"].endswith(f"a finite number (without quotes: {typed})")


@pytest.mark.parametrize(("typed", "meant"), [("2s", "{ after = '2s' }"), ("soon", "{ acked = 1000 }")])
def test_a_text_as_a_trigger_is_shown_as_a_table(typed: str, meant: str) -> None:
    text = catalogue.text_of("healthy").replace("{ acked = 100000 }", f"'{typed}'", 1)
    assert problems_of(text)["steps[0].trigger"].endswith(f"a table, such as {meant}")


@pytest.mark.parametrize(
    ("typed", "meant"), [("5", "5s"), ("5 s", "5s"), ("1.5 seconds", "1.5s"), ("2min", "2m"), ("300 msec", "300ms")]
)
def test_a_duration_without_its_unit_or_with_a_long_one_suggests_the_duration(typed: str, meant: str) -> None:
    text = catalogue.text_of("healthy").replace("{ acked = 100000 }", f'{{ after = "{typed}" }}')
    assert problems_of(text)["steps[0].trigger.after"].endswith(f"(did you mean '{meant}'?)")


@pytest.mark.parametrize("typed", ["soon", "5h", "-5", ""])
def test_what_no_duration_resembles_suggests_none(typed: str) -> None:
    text = catalogue.text_of("healthy").replace("{ acked = 100000 }", f'{{ after = "{typed}" }}')
    assert "did you mean" not in problems_of(text)["steps[0].trigger.after"]


def test_a_missing_table_is_shown_with_its_header() -> None:
    told = problems_of("")
    assert told["topics"].endswith("allowed: [topics.NAME], a table")
    assert told["producers"].endswith("allowed: [[producers]], a table with id, topic")
    assert told["kafka"].endswith("allowed: a list of strings in quotes")


def test_a_key_that_is_only_misspelt_is_not_missing_too() -> None:
    text = catalogue.text_of("healthy")
    assert set(problems_of(text.replace('topics = ["t"]', 'topic = ["t"]'))) == {"consumers[0].topic"}
    assert set(problems_of(text.replace("count = 100000", "rate = 5", 1))) == {"producers[0].rate"}


def test_a_property_that_no_verdict_has_is_violated_by_none() -> None:
    text = catalogue.text_of("healthy") + 'known_bug = "KAFKA-1"\nviolates = ["no-aborted-reads"]\n'
    with pytest.raises(Problems) as caught:
        parse(text, file="x.toml", strict=True)
    (found,) = caught.value.problems
    assert (found.what, found.where) == ("unknown property", "predictions[0].violates[0]")
