"""Counterexamples become scenario files that parse, wait for what every release does, and predict each release."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from analysis.spec.explore.eager import Operation, PlayedSchedule, play
from analysis.spec.explore.properties import PROPERTIES
from analysis.spec.explore.question import ask, machine_for
from analysis.spec.generate import scenario_of
from analysis.spec.generate_schedule import PlayabilityFilter
from analysis.spec.model.bounds import Bounds
from ebbtide.scenario.model import Scenario
from ebbtide.scenario.parse import parse
from ebbtide.scenario.steps.step import target_of
from ebbtide.scenario.write import brief_text_of
from harness.cli.main import main

LAST_REPLICA_STANDING = (
    Operation("isolate", (3,)),
    Operation("isolate", (2,)),
    Operation("power-loss", (1,)),
    Operation("start", (1,)),
)


def generate_scenario(variant: str, **limits: Any) -> Scenario:
    bounds = Bounds(**limits)
    answer = ask(variant, bounds, PROPERTIES["committed"], wanted=PlayabilityFilter(variant, bounds))
    assert answer.trace is not None
    return scenario_of("found", variant, bounds, answer.trace, ("4.3.1",))


def play_operations(variant: str, *operations: Operation) -> PlayedSchedule:
    ample = Bounds(records=6, power_losses=9, kills=9, stops=9, admin=9, admin_kinds=("reassign", "feature"))
    return play(machine_for(variant, ample, PROPERTIES["committed"]), operations)


def steps(scenario: Scenario) -> list[tuple[str, str | None]]:
    return [(step.step, str(target_of(step))) for step in scenario.steps if step.step != "wait"]


@pytest.mark.parametrize(("variant", "loses"), [("kraft", True), ("strict_min_isr_39", True), ("elr_43", False)])
def test_a_schedule_is_played_as_a_real_cluster_would(variant: str, loses: bool) -> None:
    seen = play_operations(variant, *LAST_REPLICA_STANDING)
    assert (seen.lost_at >= 0) == loses
    assert seen.impossible == -1
    assert seen.phases[0].isr == (1, 2, 3)
    assert seen.phases[0].committed_anew
    assert [phase.leader for phase in seen.phases[:4]] == [1, 1, 1, 0]


def test_the_first_replica_leads_again_once_it_is_back_in_the_isr() -> None:
    """Kafka elects the first in-sync broker of the replica list; generated steps waited for broker 3 in vain."""
    in_turn = [Operation(kind, (broker,)) for broker in (1, 2, 3) for kind in ("stop", "start")]
    seen = play_operations("elr_40", *in_turn)
    assert [phase.leader for phase in seen.phases] == [1, 2, 2, 1, 1, 1, 1]


def test_an_elr_member_leads_when_it_comes_back() -> None:
    seen = play_operations("elr_43", *LAST_REPLICA_STANDING, Operation("rejoin", (2,)))
    assert seen.elected_from_elr
    assert seen.phases[-1].leader == 2


def test_held_back_followers_fall_out_of_the_isr_and_come_back() -> None:
    seen = play_operations("elr_43", Operation("hold-back", (2, 3)), Operation("rejoin", (2, 3)))
    assert [phase.isr for phase in seen.phases] == [(1, 2, 3), (1,), (1, 2, 3)]


def test_last_replica_standing_is_generated_with_both_predictions() -> None:
    scenario = generate_scenario("strict_min_isr_39", power_losses=1)
    assert steps(scenario) == [
        ("isolate", "broker(3)"),
        ("isolate", "broker(2)"),
        ("power-loss", "broker(1)"),
        ("start", "broker(1)"),
    ]
    predicted = {(one.kafka, tuple(one.features.values())): one.loss.committed for one in scenario.predictions}
    assert predicted == {(">=4.0", (1,)): "none", (">=3.3", ()): "some"}


@pytest.mark.parametrize(
    "limits",
    [
        {"admin": 2, "admin_kinds": ("move",), "brokers": 4},
        {"admin": 1, "admin_kinds": ("raise-min-isr",), "power_losses": 1},
        {"admin": 1, "admin_kinds": ("first-partition",), "power_losses": 1},
        {"admin": 2, "admin_kinds": ("feature", "lower-min-isr")},
    ],
)
def test_what_is_generated_reads_back_the_same(limits: dict[str, Any]) -> None:
    scenario = generate_scenario("elr_43", **limits)
    assert parse(brief_text_of(scenario), file="found.toml", strict=True) == scenario
    assert any(one.loss.committed == "some" for one in scenario.predictions)


def test_releases_that_do_different_things_get_predictions_of_their_own() -> None:
    """4.1.0 forgets the stale last known leader that 4.0 and 4.1.1 elect."""
    scenario = generate_scenario("elr_43", admin=3, admin_kinds=("feature",), kills=2)
    assert [(one.kafka, one.loss.committed) for one in scenario.predictions] == [
        (">=4.0,<4.1", "some"),
        (">=4.1,<4.1.1", "none"),
        (">=4.1.1", "some"),
    ]


def test_the_stale_isr_join_is_brought_about_by_holding_the_request() -> None:
    scenario = generate_scenario("kraft", rf=2, min_isr=1, kills=1, disks_outside=1)
    kinds = [step.step for step in scenario.steps]
    assert kinds.index("hold-request") < kinds.index("wipe-disk") < kinds.index("release")
    predicted = {one.kafka: one.loss.committed for one in scenario.predictions}
    assert predicted == {">=4.0": "none", ">=3.3,<3.5": "some", ">=3.5": "none"}


def test_a_config_that_is_read_late_is_brought_about_by_holding_the_metadata() -> None:
    scenario = generate_scenario("elr_43", admin=1, admin_kinds=("raise-min-isr",), late_configs=True)
    assert ("hold-request", "Fetch") in [(step.step, getattr(step, "api", None)) for step in scenario.steps]


def test_what_no_schedule_brings_about_is_passed_over() -> None:
    bounds = Bounds(power_losses=1)
    answer = ask("strict_min_isr", bounds, PROPERTIES["committed"], wanted=lambda found: False)
    assert answer.trace is None
    assert answer.turned_down > 0
    assert not answer.holds


def test_check_ends_with_the_codes_that_its_help_names(capsys: pytest.CaptureFixture[str]) -> None:
    check = ["spec", "check", "--variant"]
    assert main([*check, "elr-43", "--bounds", "power-losses=1"]) == 0
    assert "holds within the bounds" in capsys.readouterr().out
    assert main([*check, "strict-min-isr-39", "--bounds", "power-losses=1"]) == 1
    assert "LOST" in capsys.readouterr().out
    assert main([*check, "elr-43", "--bounds", "power-losses=1,steps=3"]) == 2
    assert "not exhausted" in capsys.readouterr().out


def test_find_writes_a_valid_file_or_says_why_not(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out = tmp_path / "found.toml"
    find = ["spec", "find", "--bounds", "power-losses=1", "--out", str(out), "--variant"]
    assert main([*find, "elr-43"]) == 1
    assert "the property holds" in capsys.readouterr().out
    assert not out.exists()
    assert main([*find, "kraft", "--kafka", "3.4.1,4.3.1"]) == 0
    assert parse(out.read_text("utf-8"), file=str(out)).kafka == ("3.4.1", "4.3.1")
    assert main([*find, "kip966"]) == 4
