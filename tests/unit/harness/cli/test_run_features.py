"""`ebbtide run --feature NAME=LEVEL`: levels to format with, over the scenario's own."""

from __future__ import annotations

import msgspec
import pytest

from ebbtide.errors import ExitCode, Problems, UsageError
from ebbtide.scenario import catalogue
from ebbtide.scenario.parse import parse
from ebbtide.scenario.write import text_of
from harness.cli.main import main
from harness.cli.option_values import with_features

ELR = "eligible.leader.replicas.version"


def test_levels_are_set_over_the_scenarios_own_and_stand_in_the_scenario_as_run() -> None:
    healthy = catalogue.find("healthy")
    own = msgspec.structs.replace(
        healthy, cluster=msgspec.structs.replace(healthy.cluster, features={ELR: 1, "group.version": 1})
    )
    changed = with_features(own, [f"{ELR}=0", "transaction.version=2"])
    assert changed.cluster.features == {ELR: 0, "group.version": 1, "transaction.version": 2}
    as_run = msgspec.structs.replace(changed, kafka=("4.3.1",))
    assert parse(text_of(as_run), file="scenario.toml").cluster.features == changed.cluster.features
    assert msgspec.structs.replace(changed, cluster=own.cluster) == own


def test_all_words_that_are_no_level_are_reported_at_once() -> None:
    with pytest.raises(Problems) as caught:
        with_features(catalogue.find("healthy"), ["eligible.leader.replica=1", ELR, f"{ELR}=-1", "kraft.version="])
    told = [one.render() for one in caught.value.problems]
    assert len(told) == 4
    assert "unknown feature" in told[0]
    assert ELR in told[0]


@pytest.mark.parametrize(
    ("name", "meant"),
    [
        ("elr", ELR),
        ("ELR.version", ELR),
        ("tv2", "transaction.version"),
        ("mv", "metadata.version"),
        ("metadata", "metadata.version"),
        ("streams.versoin", "streams.version"),
        ("kraft.versoin", "kraft.version"),
        ("group_version", "group.version"),
        ("eligible.leader.replica.version", ELR),
        ("nope.version", None),
        ("quota.version", None),
        ("a.version", None),
        ("sv", None),
        ("m", None),
        ("xyz", None),
    ],
)
def test_an_unknown_feature_suggests_the_one_that_was_meant(name: str, meant: str | None) -> None:
    with pytest.raises(UsageError) as caught:
        with_features(catalogue.find("healthy"), [f"{name}=1"])
    told = caught.value.render()
    assert (f"(did you mean '{meant}'?)" in told) if meant else ("did you mean" not in told)


def test_a_word_without_a_level_is_reported_once(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["random", "--kafka", "4.3.1", "--feature", "foo"]) == ExitCode.USAGE
    assert capsys.readouterr().err.count("'foo'") == 1


def test_a_wrong_level_is_refused_before_anything_starts(capsys: pytest.CaptureFixture[str]) -> None:
    arguments = ["run", "healthy", "--kafka", "4.3.1", "--feature", "elr=1"]
    assert main(arguments) == ExitCode.USAGE
    assert "unknown feature" in capsys.readouterr().err


def test_a_feature_that_the_release_does_not_have_is_refused_before_anything_starts(
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert main(["run", "healthy", "--kafka", "3.9.1", "--feature", f"{ELR}=1"]) == ExitCode.USAGE
    told = capsys.readouterr().err
    assert "Kafka 3.9.1 cannot be formatted with this level" in told
    assert f"got:     {ELR} = 1" in told
