"""The advice as JSON (docs/advise.md has the schema)."""

from __future__ import annotations

from typing import Any

from analysis.advise.advice import ADVICE_VERSION, Advice, AdvisedGroup, AdvisedLine
from analysis.advise.answers import EventAnswer
from analysis.advise.groups import TopicGroup
from analysis.advise.lines import AdviceLine
from analysis.advise.release import ReleaseFacts


def plain_advice(advice: Advice) -> dict[str, Any]:
    """Return the advice as plain values."""
    snapshot = advice.snapshot
    return {
        "advice_version": ADVICE_VERSION,
        "cluster_id": snapshot.cluster_id,
        "taken_at": snapshot.taken_at,
        "brokers": len(snapshot.brokers),
        "release": _release(advice.release),
        "assumed": advice.assumed,
        "release_after": None if advice.after is None else _release(advice.after),
        "danger_now": [
            {"kind": one.kind, "what": one.what, "count": one.count, "examples": list(one.examples)}
            for one in advice.dangers
        ],
        "known_bugs": [
            {"name": one.name, "what": one.what, "change": one.change, "page": one.page} for one in advice.defects
        ],
        "groups": [_group(one) for one in advice.groups],
        "notes": list(advice.notes),
    }


def _release(release: ReleaseFacts) -> dict[str, Any]:
    return {
        "kafka": release.kafka,
        "shown": release.shown,
        "variant": release.variant,
        "features": release.features,
        "elr": release.is_elr_on,
    }


def _settings(group: TopicGroup) -> dict[str, Any]:
    settings = group.settings
    return {
        "rf": settings.rf,
        "min_isr": settings.min_isr,
        "unclean": settings.unclean,
        "flush_messages": settings.flush_messages,
        "flush_ms": settings.flush_ms,
        "cleanup": settings.cleanup,
    }


def _group(advised: AdvisedGroup) -> dict[str, Any]:
    group = advised.group
    return {
        "settings": _settings(group),
        "settings_after": None if advised.after is None else _settings(advised.after),
        "topics": list(group.topics),
        "partitions": group.partitions,
        "replicas_in_one_rack": group.rack_replicas or None,
        "lines": [_line(one) for one in advised.lines],
        "changes": [
            {"assume": one.assume, "change": one.change, "cost": one.cost, "saves": list(one.saves)}
            for one in advised.remedies
        ],
    }


def _line(line: AdvisedLine) -> dict[str, Any]:
    event = line.today.event
    return {
        "key": event.key,
        "what": event.what,
        "when": event.when,
        "likelihood": event.likelihood,
        "acks": _answers(line.today),
        "acks_after": None if line.after is None else _answers(line.after),
        "measured": list(line.measured),
        "findings": list(event.findings),
    }


def _answers(line: AdviceLine) -> dict[str, Any]:
    return {"0": _answer(line.acks_0), "1": _answer(line.acks_1), "all": _answer(line.acks_all)}


def _answer(answer: EventAnswer) -> dict[str, Any]:
    return {"says": answer.says, "within": answer.within, "states": answer.states, "steps": answer.steps}
