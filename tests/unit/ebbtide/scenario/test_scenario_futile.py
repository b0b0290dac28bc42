"""Scenario files that could be run and would show nothing: refused when an author's file is read, not in a record."""

from __future__ import annotations

from pathlib import Path

import pytest
from packaging.specifiers import SpecifierSet
from packaging.version import Version
from scenario_problems import problems_of

from ebbtide.errors import ExitCode, Problems
from ebbtide.scenario import catalogue
from ebbtide.scenario.parse import load
from ebbtide.scenario.validate_predictions import _breaks, _is_within_range, _matching_versions
from harness.cli.main import main

ELR = "eligible.leader.replicas.version"
ANY = 'kafka = ">=3.3"\nclause = "x"'
FILE = """
name = "x"
title = "x"
description = "x"
kafka = [{kafka}]
[cluster]
{cluster}
[topics.t]
[topics.u]
[[producers]]
id = 1
topic = "t"
count = 10
{producer}
[[producers]]
id = 2
topic = "t"
count = 5
{steps}
{predictions}
"""


def text_of(
    *steps: str,
    kafka: str = "4.3.1",
    cluster: str = "",
    producer: str = "",
    predictions: tuple[str, ...] = (ANY,),
) -> str:
    return FILE.format(
        kafka=", ".join(f'"{one}"' for one in kafka.split()),
        cluster=cluster,
        producer=producer,
        steps="".join(f"[[steps]]\n{step}\n" for step in steps),
        predictions="".join(f"[[predictions]]\n{one}\n" for one in predictions),
    )


def problems(text: str) -> dict[str, str]:
    return problems_of(text, strict=True)


def of_predictions(*predictions: str, cluster: str = "") -> dict[str, str]:
    return problems(text_of(cluster=cluster, predictions=predictions))


def test_a_file_is_refused_where_it_is_validated_and_run_and_a_record_is_judged_all_the_same(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "x.toml"
    file.write_text(text_of(predictions=(f'{ANY}\nexercised = ["elections-from-the-elr"]',)))
    assert main(["scenarios", "check", str(file)]) == ExitCode.USAGE
    assert "predictions[0].exercised[0]" in capsys.readouterr().err
    with pytest.raises(Problems):
        catalogue.find(str(file))
    assert load(file).predictions[0].exercised == ("elections-from-the-elr",)


@pytest.mark.parametrize(
    ("anomalies", "refused"), [("", True), ('anomalies = "any"', True), ('anomalies = "none"', False)]
)
def test_records_passed_over_are_allowed_only_where_anomalies_are_not(anomalies: str, refused: bool) -> None:
    found = of_predictions(f'{ANY}\n{anomalies}\npassed_over = "any"')
    assert set(found) == ({"predictions[0].passed_over"} if refused else set())
    assert refused == ("beside anomalies" in "".join(found.values()))


@pytest.mark.parametrize(
    ("kafka", "name", "level", "found"),
    [
        (">=4.0", ELR, 1, None),
        (">=3.3", ELR, 0, None),
        (">=3.3", "eligible.leader.replica.version", 1, f"did you mean '{ELR}'?"),
        (">=4.0", ELR, -1, "0 or more"),
        (">=4.0", ELR, 2, "a level of eligible.leader.replicas.version that one of 4.0.0, "),
        ("<4.0", ELR, 1, "3.9.2 has"),
        (">=4.4", ELR, 2, "one of 4.4.0 has"),
        (">=4.5", ELR, 2, None),  # a release that is not known here may have it
        (">=4.0", "kraft.version", 1, None),  # none is formatted with it, and some can be upgraded to it
        ("<3.5", "metadata.version", 9, "one of 3.3.2, 3.4.1 has"),
        (">=3.5", "metadata.version", 9, None),
    ],
)
def test_features_of_a_prediction_are_known_and_have_levels_that_a_release_in_its_range_has(
    kafka: str, name: str, level: int, found: str | None
) -> None:
    told = of_predictions(f'kafka = "{kafka}"\nclause = "x"\nfeatures = {{ "{name}" = {level} }}', ANY)
    assert set(told) == ({f"predictions[0].features.{name}"} if found else set())
    assert (found or "") in "".join(told.values())


def test_a_level_that_is_unstable_may_be_predicted_where_unstable_ones_are_on() -> None:
    unstable = 'controller_properties = { "unstable.feature.versions.enable" = "true" }'
    wish = f'{ANY}\nfeatures = {{ "{ELR}" = 2 }}'
    assert of_predictions(wish, ANY)
    assert not of_predictions(wish, ANY, cluster=unstable)


@pytest.mark.parametrize(
    ("loss", "keys"),
    [
        ('committed = "none", uncommitted = "none", at_least = 1', ["at_least"]),
        ('committed = "none", uncommitted = "none", cause = "unclean-election"', ["cause"]),
        ('committed = "none", uncommitted = "none"', []),
        ('committed = "none", uncommitted = "some", at_least = 1', []),
        ('committed = "none", at_least = 1', []),
        ('committed = "nune", uncommitted = "none", at_least = 1', ["committed"]),
    ],
)
def test_what_is_said_of_losses_may_not_contradict_that_there_is_none(loss: str, keys: list[str]) -> None:
    assert set(of_predictions(f"{ANY}\nloss = {{ {loss} }}")) == {f"predictions[0].loss.{key}" for key in keys}


@pytest.mark.parametrize(
    ("loss", "keys"),
    [
        ('acks = { all = "none" }', []),
        ('acks = { "1" = "some" }', ["acks.1"]),  # no producer sends with acks=1
        ('committed = "none", uncommitted = "none", acks = { all = "some" }', ["acks.all"]),
        ('committed = "none", acks = { all = "some" }', []),
        ('acks = { "2" = "some" }', ["acks.2"]),
    ],
)
def test_what_is_said_of_the_losses_of_an_acks_needs_a_producer_that_can_show_it(loss: str, keys: list[str]) -> None:
    found = of_predictions(f"{ANY}\nloss = {{ {loss} }}")
    assert {where.removeprefix("predictions[0].loss.") for where in found} == set(keys), found


def test_properties_that_must_hold_are_known_by_name_and_not_violated_too() -> None:
    found = of_predictions(f'{ANY}\nholds = ["leader-in-isr", "api-agrees-with-logs"]')
    assert set(found) == {"predictions[0].holds[1]"}
    assert "did you mean 'api-agrees-with-log'?" in found["predictions[0].holds[1]"]
    bug = 'known_bug = "K"\nviolates = ["leader-in-isr"]\nholds = ["leader-in-isr"]'
    assert set(of_predictions(f"{ANY}\n{bug}")) == {"predictions[0].holds[0]"}


@pytest.mark.parametrize(
    "kafka", [">=4.0,<3.0", "<3.3", "<=3.2.9", ">4.0.0,<4.0.1", "===3.9", "==3.9.1,!=3.9.1", ">=2,<3.3.0"]
)
def test_a_range_that_holds_no_release_is_refused(kafka: str) -> None:
    found = of_predictions(f'kafka = "{kafka}"\nclause = "x"', ANY)
    assert set(found) == {"predictions[0].kafka"}
    assert "holds no Kafka release" in found["predictions[0].kafka"]


@pytest.mark.parametrize(
    "kafka", ["==3.9", "==3.3.0", "~=4.1.2", "==3.7.*", ">4.0.9,<4.1", ">=12.4", "==4.11.17", "!=3.9.1"]
)
def test_a_range_may_hold_none_of_the_listed_releases(kafka: str) -> None:
    assert not of_predictions(f'kafka = "{kafka}"\nclause = "x"', ANY)


def prediction(kafka: str, levels: str = "") -> str:
    return f'kafka = "{kafka}"\nclause = "x"\n' + (f"features = {{ {levels} }}" if levels else "")


@pytest.mark.parametrize(
    ("first", "later"),
    [
        (prediction(">=3.3"), prediction(">=4.0")),
        (prediction(">=3.3"), prediction(">=4.0", f'"{ELR}" = 1')),
        (prediction(">=4.0", f'"{ELR}" = 1'), prediction(">=4.1,<4.3", f'"{ELR}" = 1, "group.version" = 1')),
        (prediction(">=3.7,<4.1"), prediction("==3.9.*")),
        (prediction(">=3.3"), prediction("!=3.9.1")),
    ],
)
def test_a_prediction_behind_one_that_always_fits_first_is_refused(first: str, later: str) -> None:
    found = of_predictions(first, later, ANY)
    assert "predictions[0] fits every run that this one fits" in found["predictions[1]"]
    assert "predictions[1]" not in of_predictions(later, first, ANY)


@pytest.mark.parametrize(
    ("first", "later"),
    [
        (prediction(">=4.0", f'"{ELR}" = 1'), prediction(">=4.0")),
        (prediction(">=4.0", f'"{ELR}" = 1'), prediction(">=4.0", f'"{ELR}" = 0')),
        (prediction(">=3.5"), prediction(">=3.3")),
        (prediction("<4.1.1"), prediction("<=4.1.1")),
        (prediction("!=4.11.17"), prediction(">=3.3")),
        (prediction("<3.0"), prediction(">=4.0")),
    ],
)
def test_a_prediction_that_fits_one_run_more_is_accepted(first: str, later: str) -> None:
    assert "predictions[1]" not in of_predictions(first, later)


def test_ranges_are_compared_as_on_every_release_there_may_be() -> None:
    ranges = [
        ">=3.3",
        ">=4.0,<4.1",
        "<4",
        ">4.0.0",
        "==4.*",
        "~=4.1",
        "~=4.1.1",
        "!=4.0.*",
        "==4.1.*",
        ">=4.1,<4.5",
        ">=4.1,!=4.3.1",
        "<=4.3.1",
    ]
    grid = {Version(f"{a}.{b}.{c}") for a in range(3, 10) for b in range(10) for c in range(10)}
    grid = {one for one in grid if one >= Version("3.3.0")}
    for one in ranges:
        held = _matching_versions(SpecifierSet(one), grid)
        assert bool(held) == bool(_matching_versions(SpecifierSet(one), _breaks(one)))
        for other in ranges:
            assert _is_within_range(other, one) == (_matching_versions(SpecifierSet(other), grid) <= held), (one, other)


@pytest.mark.parametrize(
    ("after", "deadline", "futile"),
    [("60s", "", True), ("31s", "", True), ("30s", "", False), ("60s", "60", False), ("600ms", "0.5", True)],
)
def test_a_trigger_that_comes_after_its_deadline_is_refused(after: str, deadline: str, futile: bool) -> None:
    step = f'step = "wait"\ntrigger = {{ after = "{after}" }}' + (f"\ndeadline_s = {deadline}" if deadline else "")
    found = problems(text_of(step))
    assert set(found) == ({"steps[0].trigger.after"} if futile else set())
    if futile:
        assert f"after = '{after}' with deadline_s = {deadline or 30}" in found["steps[0].trigger.after"]


ELR_WAIT = 'step = "wait"\ntrigger = { elr_contains = { partition = "t-0", broker = "broker(2)" } }'
RAISE = f'step = "set-feature"\nfeature = "{ELR}"\nlevel = 1'
OFF = f'features = {{ "{ELR}" = 0 }}'


@pytest.mark.parametrize(
    ("steps", "kafka", "cluster", "futile"),
    [
        ([ELR_WAIT], "4.3.1", "", False),
        ([ELR_WAIT], "3.9.1 4.3.1", "", False),
        ([ELR_WAIT], "3.7.2 3.9.1", "", True),
        ([ELR_WAIT], "4.3.1", OFF, True),
        ([RAISE, ELR_WAIT], "4.3.1", OFF, False),
        ([f"{ELR_WAIT}\noptional = true"], "3.9.1", "", False),
        ([ELR_WAIT], "3.9.1", 'controller_properties = { "eligible.leader.replicas.enable" = "true" }', False),
    ],
)
def test_a_wait_for_an_elr_needs_a_release_that_can_have_one(
    steps: list[str], kafka: str, cluster: str, futile: bool
) -> None:
    found = problems(text_of(*steps, kafka=kafka, cluster=cluster))
    assert set(found) == ({"steps[0].trigger.elr_contains"} if futile else set())


def test_a_file_without_a_release_or_with_a_wrong_number_of_brokers_has_that_problem_alone() -> None:
    assert problems(text_of(ELR_WAIT, RAISE, kafka="")).keys() == {"kafka"}
    assert problems(text_of(ELR_WAIT, cluster="brokers = 0")).keys() == {"cluster.brokers"}


@pytest.mark.parametrize(
    ("partitions", "offset", "producer", "futile"),
    [
        ('partition = "t-0"', 15, "", False),
        ('partition = "t-0"', 16, "", True),
        ('partitions = ["t-0"]', 16, "", True),
        ('partition = "t-0"', 16, "transactional = true\ntxn_records = 5", False),
        ('partition = "t-0"', 16, "[[producers]]\nid = 3\ntopic = 't'\nrate_per_s = 5", False),
        ('partition = "u-0"', 16, "", False),
    ],
)
def test_no_hw_is_awaited_that_no_record_can_bring_about(
    partitions: str, offset: int, producer: str, futile: bool
) -> None:
    step = f'step = "wait"\ntrigger = {{ hw_at_least = {{ {partitions}, offset = {offset} }} }}'
    text = text_of(step, producer=producer)
    found = problems(text.replace("count = ", "idempotent = true\ncount = "))
    assert set(found) == ({"steps[0].trigger.hw_at_least.offset"} if futile else set())
    assert ("up to 15" in "".join(found.values())) == futile
    # A producer that is not idempotent may write a record twice.
    assert not problems(text)


def test_records_that_are_sent_twice_may_bring_the_hw_further() -> None:
    twice = 'step = "duplicate-request"\ntarget = "clients"\napi = "Produce"'
    wait = 'step = "wait"\ntrigger = { hw_at_least = { partition = "t-0", offset = 16 } }'
    assert not problems(text_of(twice, wait))


def test_a_producer_that_is_wrong_hides_what_would_follow_from_its_count() -> None:
    wait = 'step = "wait"\ntrigger = { hw_at_least = { partition = "t-0", offset = 16 } }'
    text = text_of(wait).replace("count = 10", 'count = "ten"')
    assert set(problems(text)) == {"producers[0].count"}


@pytest.mark.parametrize(
    ("more", "level", "kafka", "futile"),
    [
        ("", 2, "4.3.1", True),
        ("", 1, "4.3.1", False),
        ("", 1, "3.9.1", True),
        ("", 1, "3.9.1 4.3.1", False),
        ("", 2, "9.9.9", False),
        ('\nexpect_error = "INVALID_UPDATE_VERSION"', 2, "4.3.1", False),
        ("\noptional = true", 2, "4.3.1", False),
    ],
)
def test_a_step_to_a_level_that_no_listed_release_has_is_refused_unless_it_is_to_be(
    more: str, level: int, kafka: str, futile: bool
) -> None:
    found = problems(text_of(f'step = "set-feature"\nfeature = "{ELR}"\nlevel = {level}{more}', kafka=kafka))
    assert set(found) == ({"steps[0].level"} if futile else set())


def test_a_level_of_kraft_version_is_left_to_the_cluster() -> None:
    assert not problems(text_of('step = "set-feature"\nfeature = "kraft.version"\nlevel = 1'))


def test_only_producers_with_acks_all_wait_for_such_an_ack() -> None:
    bounds = f"{ANY}\nunavailable_s = {{ no_ack = {{ max = 5 }} }}"
    assert of_predictions(bounds) == {}
    text = text_of(predictions=(bounds,)).replace("[[producers]]\n", '[[producers]]\nacks = "1"\n')
    assert "a producer with acks = 'all'" in problems(text)["predictions[0].unavailable_s.no_ack"]
