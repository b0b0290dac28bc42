"""Random schedules are valid, end healed, and wait hard only for states that are certain to come."""

from __future__ import annotations

import functools
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from random import Random

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from judge_records import ELR_ON, last_replica_standing
from plain_steps import step_of, trigger_of
from random_oracle import Oracle

from cluster.jars import releases
from ebbtide.errors import UsageError
from ebbtide.releases.known_releases import ELR_VERSION, KNOWN
from ebbtide.scenario.model import Scenario
from ebbtide.scenario.parse import parse
from ebbtide.scenario.plain_values import rename_brokers
from ebbtide.scenario.steps.admin import DeleteRecordsStep
from ebbtide.scenario.steps.process import UpgradeStep
from ebbtide.scenario.steps.step import StepSpec
from ebbtide.scenario.steps.table import KINDS, TAKES_DOWN, StepKind
from ebbtide.scenario.write import brief_text_of, text_of
from harness.cli.main import main
from harness.random.drawing import GENERATORS, STEPS, build_steps, draw, with_steps, world_of
from harness.random.guide import CORPUS, Guide, coverage_marks, mutate
from harness.random.quorum import first_voters
from harness.random.replication import healthy_replication
from harness.random.upgrades import upgrade_target
from harness.random.world import healthy_world

RELEASES = ("3.4.1", "3.9.1", "4.0.2", "4.3.1")
SEEDS = st.integers(0, 2**31 - 1)


def assert_valid(scenario: Scenario) -> None:
    """Check that its file reads back the same, every step can be carried out, and nothing is broken at the end."""
    oracle = Oracle(scenario)
    assert oracle.wrong == [], brief_text_of(scenario)
    assert oracle.left_broken() == []
    assert (
        parse(text_of(scenario), file="drawn", strict=True) == parse(brief_text_of(scenario), file="drawn") == scenario
    )


@functools.cache
def drawn(kafka: str) -> tuple[Scenario, ...]:
    """The schedules of the first seeds."""
    return tuple(draw(seed, kafka=kafka) for seed in range(500))


def test_the_generator_knows_every_kind_of_step() -> None:
    assert set(GENERATORS) == {kind for kind in KINDS if KINDS[kind].weight}


def test_every_kind_of_step_is_drawn() -> None:
    assert {step.step for one in drawn("4.3.1") for step in one.steps} == set(GENERATORS)


def test_logs_of_many_segments_and_flushed_logs_are_drawn() -> None:
    drawn_settings = {config for one in drawn("4.3.1") for config in one.topics["t"].config}
    assert drawn_settings == {"unclean.leader.election.enable", "segment.ms", "flush.messages"}


def test_a_second_failure_is_drawn_more_often_while_a_broker_returns() -> None:
    def count_failures(*, returning: bool) -> int:
        first, count = draw(1, kafka="4.3.1"), 0
        for seed in range(150):
            world = world_of(first)
            world.brokers[2].returning = returning
            second = build_steps(world, [None], Random(seed))[1]
            count += second.step in TAKES_DOWN
        return count

    assert count_failures(returning=True) > 1.3 * count_failures(returning=False)


@settings(max_examples=120)
@given(SEEDS, st.sampled_from(RELEASES), st.integers(1, 40))
def test_a_drawn_schedule_is_valid_and_ends_healed(seed: int, kafka: str, steps: int) -> None:
    assert_valid(draw(seed, kafka=kafka, steps=steps))


@settings(max_examples=80)
@given(SEEDS, SEEDS, SEEDS)
def test_a_mutated_schedule_is_as_valid_as_its_sources(base: int, other: int, seed: int) -> None:
    sources = [draw(one, kafka="4.3.1", steps=20) for one in (base, other)]
    mutated = mutate(*sources, Random(seed), seed=seed, steps=12)
    assert_valid(mutated)
    # Twelve, half as many again, a heal forced in now and then, and those at the end.
    assert len(mutated.steps) <= 1 + 2 * 18 + 12


@settings(max_examples=60)
@given(SEEDS, st.lists(SEEDS, min_size=1, max_size=6))
def test_shuffled_steps_of_other_schedules_become_valid_or_are_left_out(seed: int, others: list[int]) -> None:
    slots = [step for one in others for step in draw(one, kafka="4.3.1").steps]
    Random(seed).shuffle(slots)
    scenario = draw(seed, kafka="4.3.1")
    topic = scenario.topics["t"]
    replication = healthy_replication(
        {f"t-{at}": replicas for at, replicas in enumerate(topic.assignment)},
        brokers=scenario.cluster.brokers,
        kafka="4.3.1",
        features={ELR_VERSION: 1},
        min_isr=2,
    )
    cluster = scenario.cluster
    world = healthy_world(replication, log_dirs=cluster.log_dirs or 1, voters=first_voters(cluster))
    steps = build_steps(world, [one for one in slots if one.step != "delete-topic"], Random(seed))
    assert_valid(msgspec.structs.replace(scenario, steps=steps))


def test_a_seed_draws_the_same_again_and_another_one_something_else() -> None:
    assert draw(7, kafka="4.3.1") == draw(7, kafka="4.3.1")
    assert draw(7, kafka="4.3.1").steps != draw(8, kafka="4.3.1").steps


def test_excluded_kinds_are_not_drawn() -> None:
    without: tuple[StepKind, ...] = ("fill-disk", "read-only", "fail-disk", "slow-disk", "mend-disk", "power-loss")
    kinds = {step.step for seed in range(100) for step in draw(seed, kafka="4.3.1", without=without).steps}
    assert kinds.isdisjoint(without)
    assert "kill" in kinds


@pytest.mark.parametrize("healer", ["start", "resume", "mend-disk", "heal", "release"])
def test_a_fault_that_no_step_could_heal_is_not_drawn(healer: StepKind) -> None:
    for seed in range(25):
        assert_valid(draw(seed, kafka="4.3.1", steps=25, without=[healer]))


def test_the_elr_is_switched_only_where_the_release_can() -> None:
    def count_switches(kafka: str) -> int:
        return sum(step.step == "set-feature" for one in drawn(kafka) for step in one.steps)

    assert count_switches("3.9.1") == 0
    assert count_switches("4.3.1") > 0


def test_upgrades_are_drawn_only_where_a_later_release_is_known() -> None:
    def targets(kafka: str) -> set[str]:
        steps = [step for one in drawn(kafka) for step in one.steps]
        return {step.to for step in steps if isinstance(step, UpgradeStep)}

    assert targets("3.9.1") == {"3.9.1", "4.0.2"}
    assert targets("4.3.1") == {"4.3.1", "4.4.0"}
    assert targets(KNOWN[-1].version) == set()


@pytest.mark.parametrize(
    ("kafka", "features", "target"),
    [
        ("3.9.1", {}, "4.0.2"),
        ("3.9.1", {"metadata.version": 6}, None),
        ("3.9.1", {"metadata.version": 7}, "4.0.2"),
        (KNOWN[-1].version, {}, None),
        ("9.9.9", {}, None),
    ],
)
def test_an_upgrade_goes_to_the_next_release_that_knows_every_level(
    kafka: str, features: dict[str, int], target: str | None
) -> None:
    assert upgrade_target(kafka, features) == target


def test_the_spare_topic_is_made_again_only_after_it_was_deleted() -> None:
    delete, create = step_of("delete-topic", topic="spare"), step_of("create-topic", topic="spare")

    def kept(*slots: StepSpec) -> list[str]:
        return [
            one.step for one in with_steps(draw(1, kafka="4.3.1"), [*slots], Random(1)).steps if "topic" in one.step
        ]

    assert kept(create) == []
    assert kept(create, delete, delete, create, create) == ["delete-topic", "create-topic"]


def test_a_broker_is_not_upgraded_before_the_controllers() -> None:
    broker = step_of("upgrade", target="broker(1)", to="4.4.0")
    controllers = step_of("upgrade", target="controllers", to="4.4.0")

    def upgraded(*slots: StepSpec) -> list[str]:
        steps = with_steps(draw(1, kafka="4.3.1"), [*slots], Random(1)).steps
        return [str(step.target) for step in steps if isinstance(step, UpgradeStep)]

    assert upgraded(broker) == []
    assert upgraded(broker, controllers, broker) == ["controllers", "broker(1)"]


def test_records_are_deleted_up_to_an_offset_at_most_once_and_first() -> None:
    again = []
    for one in drawn("4.3.1"):
        deleted: set[str] = set()
        for step in one.steps:
            if isinstance(step, DeleteRecordsStep):
                again += [step.before] if str(step.partition) in deleted else []
                deleted.add(str(step.partition))
    assert set(again) == {None}


def test_brokers_are_renamed_wherever_a_step_names_one() -> None:
    step = step_of(
        "partition",
        groups=(("broker(1)",), ("broker(2)", "controllers")),
        trigger=trigger_of(leader_is={"partition": "t-0", "broker": "broker(1)"}),
    )
    other = rename_brokers(step, {1: 3, 2: 1, 3: 2})
    assert other == step_of(
        "partition",
        groups=(("broker(3)",), ("broker(1)", "controllers")),
        trigger=trigger_of(leader_is={"partition": "t-0", "broker": "broker(3)"}),
    )


@pytest.mark.parametrize(("setup", "outcome"), [({}, "as-predicted"), ({"elr": True}, "contradicted")])
def test_a_random_run_is_checked_against_the_protocol_alone(
    tmp_path: Path, setup: dict[str, bool], outcome: str
) -> None:
    elr = {"kafka": "4.1.0", "features": ELR_ON} if setup else {}
    story = last_replica_standing(tmp_path, **elr)
    (tmp_path / "scenario.toml").write_text(
        text_of(msgspec.structs.replace(draw(1, kafka="3.9.1"), steps=draw(1, kafka="3.9.1").steps[:2]))
    )
    verdict = story.judge()
    assert verdict.outcome == outcome, verdict.why


def coverage(**facts: int) -> dict[str, int]:
    return {"elections": 3, "kills": 2, **{name.replace("_", "-"): count for name, count in facts.items()}}


def fill_corpus(guide: Guide, *, rare: int = 3, runs: int = 20) -> None:
    """Add runs to the corpus; only the run of seed `rare` reached a rare state."""
    for seed in range(runs):
        guide.add(draw(seed, kafka="4.3.1"), coverage(recovering=1 if seed == rare else 0))


def test_most_next_schedules_are_mutated_from_runs_that_reached_a_rare_state(tmp_path: Path) -> None:
    guide = Guide(tmp_path, kafka="4.3.1")
    fill_corpus(guide)
    descriptions = [guide.next_schedule(seed).description for seed in range(100, 200)]
    of_rare = sum("random-3," in one or "random-3 and" in one for one in descriptions)
    assert of_rare > 40
    assert sum("Everything is drawn" in one for one in descriptions) > 10


def test_marks_count_states_and_not_the_steps_of_the_schedule() -> None:
    assert set(coverage_marks({"kills": 9, "recovering": 0, "elections": 3})) == {"elections", "elections x2"}


def test_the_guide_of_a_killed_night_continues_with_the_same_corpus(tmp_path: Path) -> None:
    first = Guide(tmp_path, kafka="4.3.1")
    fill_corpus(first)
    with (tmp_path / CORPUS).open("ab") as file:
        file.write(b'{"scenario": {"na')
    again = Guide(tmp_path, kafka="4.3.1")
    assert again.runs_by_mark() == first.runs_by_mark()
    assert [again.next_schedule(seed) for seed in range(5)] == [first.next_schedule(seed) for seed in range(5)]
    again.add(draw(50, kafka="4.3.1"), coverage(recovering=1))
    assert Guide(tmp_path, kafka="4.3.1").runs_by_mark()["recovering"] == 2


def test_runs_of_another_release_are_not_mutated(tmp_path: Path) -> None:
    fill_corpus(Guide(tmp_path, kafka="4.3.1"))
    other = Guide(tmp_path, kafka="3.9.1")
    assert other.runs_by_mark() == Counter()
    assert other.next_schedule(1) == draw(1, kafka="3.9.1")


def test_a_damaged_corpus_is_refused_by_its_line(tmp_path: Path) -> None:
    fill_corpus(Guide(tmp_path, kafka="4.3.1"), runs=2)
    with (tmp_path / CORPUS).open("ab") as file:
        file.write(b"nothing\n")
    with pytest.raises(UsageError, match=r"corpus\.jsonl:3"):
        Guide(tmp_path, kafka="4.3.1")


def test_the_command_prints_what_its_seed_draws(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["random", "--seed", "5", "--steps", "8", "--kafka", "3.9.1"]) == 0
    assert parse(capsys.readouterr().out, file="printed") == draw(5, kafka="3.9.1", steps=8)


def test_the_command_writes_a_file_that_can_be_run(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out = tmp_path / "drawn.toml"
    assert main(["random", "--seed", "5", "--out", str(out)]) == 0
    assert main(["scenarios", "check", str(out)]) == 0
    told = capsys.readouterr().out
    assert f"ebbtide run {out}" in told
    steps = len(draw(5, kafka=KNOWN[-1].version).steps)
    assert steps > STEPS
    assert f"seed 5: {steps} steps, including waits and heals" in told


def test_the_command_draws_for_no_release_that_there_is_not(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    asked: list[str] = []

    def ensure(versions: Sequence[str], _progress: object) -> None:
        asked.extend(versions)
        raise UsageError("no such Kafka release in Maven's repository", got=versions[0])

    monkeypatch.setattr(releases, "ensure", ensure)
    assert main(["random", "--seed", "1", "--kafka", "9.9.9"]) == 4
    assert "no such Kafka release" in capsys.readouterr().err
    assert main(["random", "--seed", "1", "--kafka", "4.3.1"]) == 0
    assert asked == ["9.9.9"]
