"""The steps that show what acks=1 loses: the followers lag for a moment, then the leader goes."""

from __future__ import annotations

from collections.abc import Mapping

from analysis.advise.events import AdvisedEvent

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
