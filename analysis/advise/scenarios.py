"""A scenario for each line: what real Kafka must show, on this release with these features.

Also the steps that show what acks=1 loses: the followers lag for a moment, then the leader goes.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from typing import Any

import msgspec
import tomli_w

from analysis.advise.answers import EventAnswer
from analysis.advise.events import WORST, AdvisedEvent
from analysis.advise.groups import NEVER, GroupSettings, TopicGroup
from analysis.advise.known import elects_fenced_leaders
from analysis.advise.lines import AdviceLine
from analysis.advise.release import ReleaseFacts
from analysis.advise.schedules import ShownSchedule, schedule_for
from analysis.spec.generate_steps import FIRST_COUNT, steps_of
from ebbtide.errors import EbbtideError
from ebbtide.rules.table import NO_COMMITTED_LOSS, NO_HW_REGRESSION, UNCLEAN_LEAVES
from ebbtide.scenario.model import (
    MAX_BROKERS,
    ClusterSpec,
    ConsumerSpec,
    LossExpectation,
    Prediction,
    ProducerSpec,
    Scenario,
    TopicSpec,
)
from ebbtide.scenario.parse import parse
from ebbtide.scenario.steps.disk import WipeDiskStep
from ebbtide.scenario.steps.process import RestartStep
from ebbtide.scenario.steps.step import StepSpec, WaitStep
from ebbtide.scenario.triggers import BrokerTrigger, LeaderTrigger, after
from ebbtide.scenario.write import brief_text_of
from ebbtide.snapshot.model import FLUSH_MESSAGES, FLUSH_MS, UNCLEAN

Step = Mapping[str, object]
Steps = list[Step]

_PARTITIONS = ["acks-0-0", "acks-1-0"]
_LEADER, _FOLLOWERS = "leader(acks-1-0)", "followers(acks-1-0)"
_LAG = {"after": "1500ms"}
"""Less than the lag that the ISR allows, so that the followers stay in it."""


def lag_steps(event: AdvisedEvent, rf: int) -> Steps:
    """Return the steps for a topic with followers."""
    whole = {"step": "wait", "trigger": {"isr": {"partitions": _PARTITIONS, "size": rf}}, "deadline_s": 60}
    deposed = {"epoch_above": {"partitions": _PARTITIONS, "epoch": 0}}
    down = _down(event)
    if event.key.startswith("moves"):
        return [_slow_fetches(), *_leader_moves(rf), {"step": "release", "trigger": deposed, "deadline_s": 60}, whole]
    if down is None:
        cut = {"step": "partition", "groups": [[_LEADER], [_FOLLOWERS, "controllers"]]}
        heal = {"step": "heal", "trigger": {"after": "3s"}}
        return [{**cut, "trigger": {"acked": 1000}}, {"step": "wait", "trigger": deposed}, heal, whole]
    # Broker 1 leads. What goes together goes at once, so no step but the first waits.
    gone = [f"broker({one})" for one in range(1, (event.count or 1) + 1)]
    wiped = gone if event.budget.get("disks") else []
    return [
        {"step": "partition", "trigger": {"acked": 1000}, "groups": [[_FOLLOWERS], [_LEADER]]},
        *({"step": down, "target": one, **({"trigger": _LAG} if one == gone[0] else {})} for one in gone),
        {"step": "heal", "trigger": deposed},
        *({"step": "wipe-disk", "target": one} for one in wiped),
        *({"step": "start", "target": one} for one in gone),
        whole,
    ]


def plain_steps(event: AdvisedEvent) -> Steps:
    """Return the steps for a topic with one replica."""
    down = _down(event)
    if event.key.startswith("moves"):
        return _single_replica_moved()
    led = {"step": "wait", "trigger": {"isr": {"partitions": _PARTITIONS, "size": 1}}, "deadline_s": 60}
    if down is None:
        cut = {"step": "isolate", "trigger": {"acked": 1000}, "target": _LEADER}
        heal = {"step": "heal", "trigger": {"leader_is": {"partitions": _PARTITIONS, "broker": "none"}}}
        return [cut, heal, led]
    gone = {"name": "gone", "step": down, "trigger": {"acked": 1000}, "target": _LEADER}
    fenced = {"leader_is": {"partitions": _PARTITIONS, "broker": "none"}}
    disk: Steps = [{"step": "wipe-disk", "target": "step(gone)"}] if event.budget.get("disks") else []
    first, *rest = [*disk, {"step": "start", "target": "step(gone)"}]
    back = {"step": "wait", "trigger": {"broker_is": {"broker": "step(gone)", "state": "unfenced"}}, "deadline_s": 60}
    return [gone, {**first, "trigger": fenced}, *rest, back]


def _single_replica_moved() -> Steps:
    """Return a move to another broker, which lags while it copies: the leader acks what it does not have."""
    first, second = ({"step": "reassign", "partition": one, "replicas": ["broker(2)"]} for one in _PARTITIONS)
    led = {"leader_is": {"partitions": _PARTITIONS, "broker": "broker(2)"}}
    return [
        _slow_fetches(),
        {**first, "trigger": {"after": "2s"}},
        second,
        {"step": "release", "trigger": led, "deadline_s": 60},
        {"step": "wait", "trigger": {"after": "3s"}},
    ]


def _slow_fetches() -> Step:
    """Return the step that lets followers lag for less time than the ISR allows, as long as it takes."""
    slow = {"step": "delay-request", "trigger": {"acked": 1000}, "target": "brokers", "api": "Fetch"}
    return {**slow, "to": ["brokers"], "delay": "800ms"}


def _down(event: AdvisedEvent) -> str | None:
    """Return the step that takes the leader down; None where nothing does."""
    budget = event.budget
    if budget.get("power_losses"):
        return "power-loss"
    if budget.get("kills"):
        return "kill"
    return "stop" if budget.get("stops") else None


def _leader_moves(rf: int) -> Steps:
    """Return a planned move of the leader: another replica is preferred, and elected."""
    order = [f"broker({one})" for one in (2, 1, *range(3, rf + 1))]
    steps: Steps = []
    for at, partition in enumerate(_PARTITIONS):
        trigger = {"trigger": {"after": "2s"}} if at == 0 else {}
        steps.append({"step": "reassign", **trigger, "partition": partition, "replicas": order})
    for partition in _PARTITIONS:
        ready = {"replicas": {"partition": partition, "are": order}}
        steps.append({"step": "elect", "trigger": ready, "partition": partition, "type": "preferred"})
    return steps


_AGAINST_THE_PROTOCOL = ("move-and-back", "elr-off", "late-min-isr")
"""Findings whose losses the protocol forbids."""
_LOSS_VIOLATES = (NO_COMMITTED_LOSS, NO_HW_REGRESSION)
_RESTART_DEADLINE_S = 60.0
_DIRECTORY_ASSIGNED = after("8s")
"""Time for a broker to assign its new directory; on a busy host it took more than three seconds."""
_DEADLINE_S = 30.0
"""A step's own default; another one would say something of a trigger that is not there."""


class LineScenario(msgspec.Struct, frozen=True, kw_only=True):
    """The scenario of a line for one acks; `text` is None where there is none, and `why` says why."""

    name: str
    text: str | None = None
    why: str = ""


def scenarios_of(
    group: TopicGroup, lines: Sequence[AdviceLine], release: ReleaseFacts, *, prefix: str, verb: str = "advise"
) -> Iterator[LineScenario]:
    """Yield the scenarios of a group's lines: one for acks=all, and one for acks=0 and 1. `verb` writes them."""
    for line in lines:
        base, by = f"{prefix}-{line.event.key}", f"Written by `ebbtide {verb}` for"
        strong, weak = _description(by, line, release, line.acks_all), _description(by, line, release, line.acks_1)
        yield _checked(f"{base}-acks-all", line.acks_all, partial(_acks_all, strong, line, group, release))
        yield _checked(f"{base}-acks-1", line.acks_1, partial(_acks_1, weak, line, group, release))


def prefix_of(settings: GroupSettings) -> str:
    """Return the beginning of the names of a group's scenarios."""
    parts = [f"rf{settings.rf}-min{settings.min_isr}"]
    parts += ["unclean"] if settings.unclean else []
    parts += [f"flush{settings.flush_messages}"] if settings.flush_messages < NEVER else []
    parts += [f"flushms{settings.flush_ms}"] if settings.flush_ms < NEVER else []
    parts += ["compact"] if "compact" in settings.cleanup else []
    return "-".join(parts)


def _checked(name: str, answer: EventAnswer, build: Any) -> LineScenario:
    if answer.says == "refused":
        return LineScenario(name=name, why="acks=all is refused")
    if answer.says == "unknown":
        return LineScenario(name=name, why="the model does not know the answer")
    text = build(name)
    if text is None:
        return LineScenario(name=name, why="no schedule of steps brings it about")
    try:
        parse(text, file=f"{name}.toml", to_run=True)
    except EbbtideError as error:
        return LineScenario(name=name, why=f"a scenario cannot do it: {error.render().splitlines()[-1].strip()}")
    return LineScenario(name=name, text=text)


def _acks_all(description: str, line: AdviceLine, group: TopicGroup, release: ReleaseFacts, name: str) -> str | None:
    shown = schedule_for(line.event, line.acks_all, group, release)
    if shown is None or shown.brokers > MAX_BROKERS:
        return None
    loses = line.acks_all.says == "loses"
    resized = any(one.kind == "resize-first-partition" for one in shown.operations)
    known_bug, violates = _known_violation(line, release) if loses else (None, ())
    settings = group.settings
    assignment = tuple(range(1, settings.rf + 1))
    sends_on = any(phase.committed_anew for phase in shown.played.phases[1:])
    scenario = Scenario(
        name=name,
        title=_title(line, settings, "acks=all", line.acks_all),
        description=description,
        kafka=(release.kafka,),
        cluster=ClusterSpec(brokers=_brokers(shown, settings), features=release.features),
        topics={
            "t": TopicSpec(
                partitions=2 if resized else 1,
                replication_factor=settings.rf,
                min_isr=settings.effective_min_isr,
                assignment=(assignment,) * (2 if resized else 1),
                config=_config(settings),
            )
        },
        producers=(
            ProducerSpec(id=1, topic="t", acks="all", rate_per_s=500)
            if sends_on
            else ProducerSpec(id=1, topic="t", acks="all", count=FIRST_COUNT, rate_per_s=4000),
        ),
        consumers=(ConsumerSpec(id=1, topics=("t",)),),
        steps=_without_late_leaders(
            steps_of(
                shown.operations,
                [shown.played],
                partition="t-1" if resized else "t-0",
                brokers=range(1, shown.brokers + 1),
                resized=assignment,
            ),
            restarts=loses and (line.event.when == WORST or line.event.count == settings.rf),
        ),
        predictions=(
            Prediction(
                kafka=f"=={release.kafka}",
                clause=_clause(release, line.acks_all),
                loss=LossExpectation(committed="some" if loses else "none"),
                known_bug=known_bug,
                violates=violates,
            ),
        ),
    )
    return brief_text_of(scenario)


def _known_violation(line: AdviceLine, release: ReleaseFacts) -> tuple[str | None, tuple[str, ...]]:
    """Return why a run that loses is contradicted, and the properties that it violates: what breaks is known."""
    pages = [page for page in line.event.findings if page in _AGAINST_THE_PROTOCOL]
    if pages:
        return f"docs/findings/{pages[0]}.md", _LOSS_VIOLATES
    if "power_losses" in line.event.budget and elects_fenced_leaders(release):
        return "KAFKA-19522", (UNCLEAN_LEAVES,)
    return None, ()


def _without_late_leaders(steps: Sequence[StepSpec], *, restarts: bool) -> tuple[StepSpec, ...]:
    """Return the steps without waits for a leader after a disk was replaced.

    A broker that returns on a new disk may not lead before the next restart (docs/findings/late-directory.md).
    `restarts`: no other replica can lead, so that such brokers are restarted once all of them are back.
    """
    kept: list[StepSpec] = []
    for step in steps:
        wiped = [one.target for one in kept if isinstance(one, WipeDiskStep)]
        back = step.trigger
        if restarts and wiped and isinstance(back, BrokerTrigger) and back.state == "unfenced":
            # Only a restart after the directory was assigned brings a leader.
            each = [back.replace(broker=one) for one in wiped]
            kept += [WaitStep(trigger=one, deadline_s=_RESTART_DEADLINE_S) for one in each]
            kept += [RestartStep(target=one, trigger=_DIRECTORY_ASSIGNED) for one in wiped]
            restarts = False
        if not (wiped and isinstance(step.trigger, LeaderTrigger)):
            kept.append(step)
        elif not isinstance(step, WaitStep):
            kept.append(step.replace(trigger=None, deadline_s=_DEADLINE_S))
    return tuple(kept)


def _acks_1(description: str, line: AdviceLine, group: TopicGroup, release: ReleaseFacts, name: str) -> str | None:
    """Return a scenario in which the followers lag for a moment, so that only the leader has some records."""
    settings = group.settings
    loses = line.acks_1.says == "loses"
    if settings.rf > MAX_BROKERS:
        return None
    steps = lag_steps(line.event, settings.rf) if settings.rf > 1 else plain_steps(line.event)
    topic = {
        "replication_factor": settings.rf,
        "min_isr": settings.effective_min_isr,
        "assignment": [list(range(1, settings.rf + 1))],
        "config": _config(settings),
    }
    plain: dict[str, object] = {
        "name": name,
        "title": _title(line, settings, "acks=0 and acks=1", line.acks_1),
        "description": description,
        "kafka": [release.kafka],
        "cluster": {"brokers": max(settings.rf, 2), "features": release.features},
        "topics": {"acks-0": topic, "acks-1": topic},
        "producers": [
            {"id": 1, "topic": "acks-0", "acks": "0", "rate_per_s": 200},
            {"id": 2, "topic": "acks-1", "acks": "1", "rate_per_s": 200},
        ],
        "consumers": [{"id": 1, "topics": ["acks-0", "acks-1"]}],
        "steps": steps,
        "predictions": [
            {
                "kafka": f"=={release.kafka}",
                "clause": _clause(release, line.acks_1),
                "loss": {"acks": {"0": "some", "1": "some"} if loses else {"1": "none"}},
            }
        ],
    }
    return tomli_w.dumps(plain, multiline_strings=True)


def _brokers(shown: ShownSchedule, settings: GroupSettings) -> int:
    """One broker more than goes down, so that an operator's request always finds one."""
    asks = any(one.kind.startswith(("set-", "reassign", "resize")) for one in shown.operations)
    return min(MAX_BROKERS, shown.brokers + (asks and shown.brokers == settings.rf))


def _config(settings: GroupSettings) -> dict[str, str]:
    config = {UNCLEAN: "true"} if settings.unclean else {}
    if settings.flush_messages < NEVER:
        config[FLUSH_MESSAGES] = str(settings.flush_messages)
    if settings.flush_ms < NEVER:
        config[FLUSH_MS] = str(settings.flush_ms)
    return config


def _title(line: AdviceLine, settings: GroupSettings, acks: str, answer: EventAnswer) -> str:
    verb = "loses" if answer.says == "loses" else "survives"
    return f"{settings.in_words()}, {acks} {verb}: {line.event.in_words}"


def _description(by: str, line: AdviceLine, release: ReleaseFacts, answer: EventAnswer) -> str:
    how = f"The model searched {answer.states:,} states within these bounds"
    how = "A known bug decides, which the model does not have" if answer.is_by_known_bug else how
    return f"{by} Kafka {release.kafka}, {release.elr}. The event: {line.event.in_words}. {how}: {answer.within}."


def _clause(release: ReleaseFacts, answer: EventAnswer) -> str:
    if answer.is_by_known_bug:
        return answer.within
    verb = "loses" if answer.says == "loses" else "does not lose"
    return f"the model of {release.variant.replace('_', '-')}, {release.elr}, {verb} records by this event"
