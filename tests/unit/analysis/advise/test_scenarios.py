"""Each line's scenario is valid, and its steps do in the model what the line says."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from analysis.advise.answers import ModelDesk
from analysis.advise.events import fixed_events, power_event
from analysis.advise.groups import NEVER, GroupSettings, TopicGroup
from analysis.advise.lines import AdviceLine, line_for, lines_for
from analysis.advise.release import ReleaseFacts, assumed_release
from analysis.advise.scenarios import LineScenario, prefix_of, scenarios_of
from ebbtide.releases.known_releases import ELR_VERSION
from ebbtide.rules.table import UNCLEAN_LEAVES
from ebbtide.scenario.model import Scenario
from ebbtide.scenario.parse import parse
from ebbtide.scenario.triggers import LeaderTrigger

ELR_ON = {ELR_VERSION: 1}
CASES: dict[str, tuple[ReleaseFacts, dict[str, object]]] = {
    "3.9-rf1": (assumed_release("3.9.1", {}), {"rf": 1, "min_isr": 1}),
    "3.9": (assumed_release("3.9.1", {}), {"rf": 3, "min_isr": 2}),
    "3.4-rf2": (assumed_release("3.4.1", {}), {"rf": 2, "min_isr": 1}),
    "3.9-unclean": (assumed_release("3.9.1", {}), {"rf": 3, "min_isr": 1, "unclean": True}),
    "4.3": (assumed_release("4.3.1", ELR_ON), {"rf": 3, "min_isr": 2}),
    "4.2": (assumed_release("4.2.1", ELR_ON), {"rf": 2, "min_isr": 2}),
    "4.3-elr-off": (assumed_release("4.3.1", {}), {"rf": 2, "min_isr": 2}),
    "4.3-flushed": (assumed_release("4.3.1", ELR_ON), {"rf": 2, "min_isr": 2, "flush_messages": 1}),
}


def group(settings: dict[str, object]) -> TopicGroup:
    whole = {"unclean": False, "flush_messages": NEVER, "flush_ms": NEVER, "cleanup": "delete", **settings}
    return TopicGroup(
        settings=GroupSettings(**whole),  # type: ignore[arg-type]
        topics=("t",),
        partitions=1,
        rack_replicas=1,
        brokers=5,
    )


@pytest.fixture(
    scope="module", params=[pytest.param(name, marks=[pytest.mark.slow] if name == "4.3" else []) for name in CASES]
)
def case(request: pytest.FixtureRequest) -> tuple[ReleaseFacts, list[AdviceLine], dict[str, LineScenario]]:
    release, settings = CASES[request.param]
    topics = group(settings)
    lines = lines_for(topics, ModelDesk(release))
    found = scenarios_of(topics, lines, release, prefix=prefix_of(topics.settings))
    return release, lines, {one.name: one for one in found}


def scenario(found: dict[str, LineScenario], ending: str) -> Scenario:
    (one,) = (one for one in found.values() if one.name.endswith(ending))
    assert one.text is not None, one.why
    return parse(one.text, file=one.name, to_run=True)


def pairs(lines: list[AdviceLine]) -> Iterator[tuple[str, str, str]]:
    for line in lines:
        yield line.event.key, "all", line.acks_all.says
        yield line.event.key, "1", line.acks_1.says


def test_every_line_that_loses_has_a_valid_scenario(
    case: tuple[ReleaseFacts, list[AdviceLine], dict[str, LineScenario]],
) -> None:
    release, lines, found = case
    for key, acks, says in pairs(lines):
        if says == "loses":
            one = scenario(found, f"{key}-acks-{acks}")
            assert one.kafka == (release.kafka,)


def test_what_fails_together_fails_before_anything_else_happens(
    case: tuple[ReleaseFacts, list[AdviceLine], dict[str, LineScenario]],
) -> None:
    """Brokers once lost power one after the other, each fenced before the next."""
    _, lines, found = case
    events = {line.event.key: line.event for line in lines if line.event.key.startswith(("power-", "disks-", "rack-"))}
    for key, event in events.items():
        for acks in ("all", "1"):
            one = next(one for one in found.values() if one.name.endswith(f"-{key}-acks-{acks}"))
            if one.text is None or event.when == "one after the other":
                continue
            down = [step for step in parse(one.text, file=key).steps if step.step in ("kill", "power-loss")]
            assert len(down) == event.count
            assert not any(step.trigger for step in down[1:]), (key, acks)


def test_brokers_with_empty_disks_are_all_back_before_each_is_restarted() -> None:
    """No replica leads before its new directory is assigned (docs/findings/late-directory.md)."""
    release, settings = CASES["4.2"]
    topics = group(settings)
    lines = [line for line in lines_for(topics, ModelDesk(release)) if line.event.key == "disks-2"]
    found = {one.name: one for one in scenarios_of(topics, lines, release, prefix="x")}
    steps = scenario(found, "disks-2-acks-all").steps
    kinds = [step.step for step in steps if step.step != "wait"]
    assert kinds == [one for kind in ("kill", "wipe-disk", "start", "restart") for one in (kind, kind)]
    back = steps[[step.step for step in steps].index("restart") - 1]
    assert str(back.trigger).count("broker(2)") == 1


@pytest.mark.parametrize("key", ["disk-worst", "power-1-worst"])
def test_no_step_waits_for_a_leader_that_depends_on_who_left_the_isr_last(key: str) -> None:
    """A run with the ELR waited for broker 2 in vain, because broker 3 was the one eligible."""
    release, settings = CASES["4.3"]
    topics = group(settings)
    lines = [line for line in lines_for(topics, ModelDesk(release)) if line.event.key == key]
    found = {one.name: one for one in scenarios_of(topics, lines, release, prefix="x")}
    steps = scenario(found, f"{key}-acks-all").steps
    assert "start" in [step.step for step in steps]
    awaited = [step.trigger for step in steps if isinstance(step.trigger, LeaderTrigger)]
    assert all(one.broker.role is None for one in awaited)


def test_every_prediction_is_the_answer_of_its_line(
    case: tuple[ReleaseFacts, list[AdviceLine], dict[str, LineScenario]],
) -> None:
    _, lines, found = case
    for key, acks, says in pairs(lines):
        one = next(one for one in found.values() if one.name.endswith(f"-{key}-acks-{acks}"))
        if one.text is None:
            assert one.why
            continue
        (prediction,) = scenario(found, f"-{key}-acks-{acks}").predictions
        expected = prediction.loss.committed if acks == "all" else prediction.loss.acks["1"]
        assert expected == ("some" if says == "loses" else "none")


def test_a_flushed_topic_really_loses_power() -> None:
    release, settings = CASES["4.3-flushed"]
    topics = group(settings)
    lines = [line for line in lines_for(topics, ModelDesk(release)) if line.event.key == "power-2"]
    found = {one.name: one for one in scenarios_of(topics, lines, release, prefix=prefix_of(topics.settings))}
    one = scenario(found, "power-2-acks-all")
    assert [step.step for step in one.steps if step.step in ("kill", "power-loss")] == ["power-loss"] * 2
    assert one.topics["t"].config == {"flush.messages": "1"}
    assert one.predictions[0].loss.committed == "none"
    assert one.name.startswith("rf2-min2-flush1-")


def test_a_cluster_is_formatted_with_the_levels_of_the_advice() -> None:
    release = assumed_release("3.9.1", {"metadata.version": 8})
    topics = group({"rf": 1, "min_isr": 1})
    lines = [line for line in lines_for(topics, ModelDesk(release)) if line.event.key == "power-1"]
    found = {one.name: one for one in scenarios_of(topics, lines, release, prefix="x")}
    assert scenario(found, "power-1-acks-all").cluster.features == {"metadata.version": 8}


def test_no_step_waits_for_a_leader_on_a_new_disk() -> None:
    release, settings = CASES["3.4-rf2"]
    topics = group(settings)
    lines = [line for line in lines_for(topics, ModelDesk(release)) if line.event.key == "disk-worst"]
    found = {one.name: one for one in scenarios_of(topics, lines, release, prefix="x")}
    steps = scenario(found, "disk-worst-acks-all").steps
    wiped = next(at for at, step in enumerate(steps) if step.step == "wipe-disk")
    assert not any(isinstance(step.trigger, LeaderTrigger) for step in steps[wiped + 1 :])
    assert "heal" in [step.step for step in steps[wiped:]]


@pytest.mark.parametrize(("key", "page"), [("elr-off-worst", "docs/findings/elr-off.md"), ("power-2", None)])
def test_a_loss_that_breaks_the_protocol_names_its_finding(key: str, page: str | None) -> None:
    release = assumed_release("4.3.1", ELR_ON)
    topics = group({"rf": 3, "min_isr": 2} if page else {"rf": 2, "min_isr": 2})
    desk = ModelDesk(release)
    events = [*fixed_events(topics, release), power_event(2, "in sync", topics)]
    line = line_for(next(event for event in events if event.key == key), topics, desk)
    found = {one.name: one for one in scenarios_of(topics, [line], release, prefix="x")}
    assert scenario(found, f"{key}-acks-all").predictions[0].known_bug == page


@pytest.mark.parametrize(("kafka", "bug"), [("4.0.2", "KAFKA-19522"), ("4.3.1", None)])
def test_the_last_known_leader_of_4_0_is_elected_against_kip_966_which_is_known(kafka: str, bug: str | None) -> None:
    """Kafka 4.0.2 elected a broker while it was fenced, when all three had lost power."""
    release = assumed_release(kafka, ELR_ON)
    topics = group({"rf": 3, "min_isr": 2})
    line = line_for(power_event(3, "in sync", topics), topics, ModelDesk(release))
    found = {one.name: one for one in scenarios_of(topics, [line], release, prefix="x")}
    (prediction,) = scenario(found, "power-3-acks-all").predictions
    assert prediction.known_bug == bug
    assert prediction.violates == ((UNCLEAN_LEAVES,) if bug else ())


def test_a_new_disk_on_4_2_loses_because_the_eligible_replicas_are_out_of_reach() -> None:
    """While they were only cut off from the leader, one of them led at once, and a run on 4.0.2 lost nothing."""
    release = assumed_release("4.2.1", ELR_ON)
    topics = group({"rf": 3, "min_isr": 2})
    lines = [line for line in lines_for(topics, ModelDesk(release)) if line.event.key == "disk-worst"]
    found = {one.name: one for one in scenarios_of(topics, lines, release, prefix="x")}
    steps = scenario(found, "disk-worst-acks-all").steps
    kinds = [step.step for step in steps if step.step != "wait"]
    assert kinds == ["isolate", "isolate", "kill", "wipe-disk", "start", "restart", "heal"]


@pytest.mark.parametrize(
    ("rf", "key", "restarts"),
    [(1, "disk", True), (1, "disk-worst", True), (3, "disk", False), (3, "disk-worst", True)],
)
def test_a_broker_that_alone_may_lead_is_restarted_on_its_new_disk(rf: int, key: str, restarts: bool) -> None:
    """Runs on a busy host had no leader until the end, because the new directory was assigned late."""
    release = assumed_release("3.9.1", {})
    topics = group({"rf": rf, "min_isr": min(rf, 2)})
    lines = [line for line in lines_for(topics, ModelDesk(release)) if line.event.key == key]
    found = {one.name: one for one in scenarios_of(topics, lines, release, prefix="x")}
    steps = scenario(found, f"{key}-acks-all").steps
    kinds = [step.step for step in steps if step.step != "wait"]
    assert ("restart" in kinds) is restarts
    assert kinds.index("start") < (kinds.index("restart") if restarts else len(kinds))
