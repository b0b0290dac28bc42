"""Says who sends what to whom in each step of a counterexample."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from analysis.spec.explore.trace import Step
from analysis.spec.explore.wording import brokers_with, record_names, sentence
from analysis.spec.model import words as w
from analysis.spec.model.words import DATA_BITS, LOG, unpack

OUTSIDE = -1
"""Clients, operators, and whatever takes power or kills."""
CONTROLLER = 0
"""Brokers have their ids, from 1 on."""


class LaneMessage(NamedTuple):
    """A label on an arrow between two lanes, or on one lane if both are the same."""

    sender: int
    receiver: int
    label: str
    look: str = "request"


class Moment(NamedTuple):
    """The state before a step: the packed data, and each broker's word."""

    data: int
    words: dict[int, int]

    @property
    def leader(self) -> int | None:
        """The leading broker; None: nobody leads."""
        return next((broker for broker, word in self.words.items() if word >> DATA_BITS & w.LEADER), None)


_FAULTS = {"power-loss": "power loss", "kill": "kill", "stop": "clean stop", "replace-disk": "empty disk"}
_REQUESTS = {
    "reassign": "replicas {order}",
    "cancel-reassignment": "cancel the reassignment",
    "set-min-isr": "min.insync.replicas {detail}",
    "set-feature": "ELR version {detail}",
    "unregister": "unregister broker {broker}",
    "resize-first-partition": "partition 0: replica count {detail}",
    "elect-preferred": "preferred election",
    "elect-unclean": "unclean election",
    "change-controller": "new controller",
    "designate": "leader: broker {broker}",
}
"""What operators ask of the controller, or the environment does to it."""


def messages_of(step: Step, before: Moment, order: tuple[int, ...]) -> tuple[LaneMessage, ...]:
    """Return the messages of a step, in their order.

    `order` is the replica order that a reassignment sets.
    """
    return (*_own_messages(step, before, order), *_election(step, before))


def _own_messages(step: Step, before: Moment, order: tuple[int, ...]) -> Iterator[LaneMessage]:
    broker = step.broker
    leader = before.leader if before.leader is not None else broker
    if step.kind in _FAULTS:
        yield LaneMessage(OUTSIDE, broker, _FAULTS[step.kind], "fault")
    elif step.kind in _REQUESTS:
        values = {
            "order": ",".join(str(one) for one in order if one in step.brokers),
            "detail": step.detail,
            "broker": broker,
        }
        yield LaneMessage(OUTSIDE, CONTROLLER, _REQUESTS[step.kind].format(**values))
    elif step.kind == "append":
        acks = "all" if step.detail else "1"
        yield LaneMessage(OUTSIDE, broker, f"record {record_names(1 << unpack(step.data).appended - 1)}, acks={acks}")
    elif step.kind == "start":
        yield LaneMessage(OUTSIDE, broker, "start")
        yield LaneMessage(broker, CONTROLLER, "register")
    elif step.kind == "fetch":
        yield LaneMessage(leader, broker, _fetched(before.words[broker] & LOG, step.words[broker] & LOG))
    elif step.kind == "advance-hw":
        passed = record_names(unpack(step.data).committed & ~unpack(before.data).committed)
        yield LaneMessage(broker, broker, f"HW passes {passed}" if passed else "HW moves")
    elif step.kind in ("ask-expand", "ask-shrink"):
        asked = brokers_with(w.PROPOSED, step.words)
        yield LaneMessage(leader, CONTROLLER, f"AlterPartition, ISR {asked}", "in-flight")
    elif step.kind == "deliver":
        isr = brokers_with(w.IN_ISR, step.words)
        accepted = isr != brokers_with(w.IN_ISR, before.words)
        yield LaneMessage(CONTROLLER, leader, f"accepted, ISR {isr}" if accepted else "refused")
    elif step.kind in ("fence", "unfence"):
        yield LaneMessage(CONTROLLER, broker, f"{step.kind}d")
    elif step.kind == "apply-config":
        yield LaneMessage(CONTROLLER, leader, f"min.insync.replicas {step.shared.leader_min_isr}")
    elif step.kind == "answer":
        log = record_names(step.words[broker] >> DATA_BITS + w.ANSWER_AT & LOG)
        yield LaneMessage(broker, CONTROLLER, f"log: {log or 'empty'}")
    elif step.kind == "recover":
        yield LaneMessage(CONTROLLER, CONTROLLER, "compares logs")
    else:
        yield LaneMessage(CONTROLLER, CONTROLLER, sentence(step, order)[1])


def _fetched(before: int, after: int) -> str:
    parts = [f"fetched {record_names(after & ~before)}"] if after & ~before else []
    parts += [f"cut {record_names(before & ~after)}"] if before & ~after else []
    return ", ".join(parts) or "nothing to fetch"


def _election(step: Step, before: Moment) -> Iterator[LaneMessage]:
    leader = Moment(step.data, step.words).leader
    if leader is None:
        return
    if step.lost:
        yield LaneMessage(CONTROLLER, leader, f"leads without {record_names(step.lost)}", "guilty")
    elif leader != before.leader:
        yield LaneMessage(CONTROLLER, leader, "leads", "election")
