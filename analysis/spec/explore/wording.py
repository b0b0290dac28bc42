"""Writes a counterexample in words.

Each step says who acts, what happens, by which clause, and the state after it.
"""

from __future__ import annotations

from collections.abc import Iterator

from analysis.spec.explore.trace import Step, Trace
from analysis.spec.model import words as w
from analysis.spec.model.bounds import Bounds
from analysis.spec.model.words import DATA_BITS, LOG, MAX_RECORDS, SharedState, unpack
from analysis.spec.protocol import Protocol

ACTIONS: dict[str, tuple[str, str]] = {
    "append": ("producer", "sends record {record} ({acks}) to broker {broker}"),
    "fetch": ("broker {broker}", "fetches from the leader, cutting its log to the leader's first"),
    "advance-hw": ("broker {broker}", "moves the HW to what the maximal ISR has"),
    "ask-expand": ("leader", "asks for an ISR with broker {broker} (AlterPartition leaves)"),
    "ask-shrink": ("leader", "asks for an ISR without {brokers} (AlterPartition leaves)"),
    "deliver": ("controller", "decides on the AlterPartition request"),
    "fence": ("controller", "fences broker {broker}: its session expired"),
    "unfence": ("controller", "unfences broker {broker}"),
    "power-loss": ("environment", "broker {broker} loses power and what it had not flushed"),
    "kill": ("environment", "broker {broker} is killed; its log stays"),
    "stop": ("operator", "stops broker {broker} cleanly"),
    "start": ("operator", "starts broker {broker}, which registers"),
    "replace-disk": ("operator", "replaces the disk of broker {broker}"),
    "reassign": ("operator", "reassigns the partition to {order}"),
    "cancel-reassignment": ("operator", "cancels the reassignment"),
    "set-min-isr": ("operator", "sets min.insync.replicas to {detail}"),
    "apply-config": ("leader", "reads the new min.insync.replicas from the metadata log"),
    "set-feature": ("operator", "sets eligible.leader.replicas.version to {detail}"),
    "unregister": ("operator", "unregisters broker {broker}"),
    "resize-first-partition": ("operator", "reassigns partition 0 of the topic to {detail} replica(s)"),
    "elect-preferred": ("operator", "asks for a preferred election"),
    "elect-unclean": ("operator", "asks for an unclean election"),
    "answer": ("broker {broker}", "answers GetReplicaLogInfo with its log"),
    "recover": ("controller", "elects the longest log of {brokers}"),
    "change-controller": ("environment", "the controller changes, and asks for all logs again"),
    "designate": ("operator", "names broker {broker} as the leader"),
}
"""Who does each kind of step, and what happens."""

_IN_KRAFT = {
    "append": "min.insync.replicas",
    "fetch": "KIP-101, KIP-279",
    "advance-hw": "KIP-497, maximal ISR",
    "ask-expand": "KIP-841",
    "ask-shrink": "replica.lag.time.max.ms",
    "deliver": "KIP-497",
    "fence": "KIP-631",
    "unfence": "KIP-631",
    "power-loss": "KIP-966, Motivation",
    "kill": "KIP-631",
    "stop": "KIP-631",
    "start": "KIP-631",
    "replace-disk": "KIP-903, Motivation",
    "reassign": "KIP-455",
    "cancel-reassignment": "KIP-455",
    "set-min-isr": "min.insync.replicas",
    "apply-config": "min.insync.replicas",
    "unregister": "KIP-631",
    "resize-first-partition": "ReplicationControlManager.getTopicEffectiveMinIsr",
    "elect-preferred": "KIP-460",
    "elect-unclean": "KIP-460",
}
_SINCE_KIP_903 = {"ask-expand": "KIP-841, KIP-903", "deliver": "KIP-497, KIP-903"}
_SINCE_STRICT_MIN_ISR = dict.fromkeys(("append", "advance-hw", "apply-config"), "KIP-966, HW requirement")
_ELR = "KIP-966, Controller behaviors"
_SINCE_ELR = {
    "deliver": f"{_ELR} 1; KIP-903",
    "fence": f"{_ELR} 2",
    "unfence": f"{_ELR} 3",
    "kill": "KIP-966, Detection of an unclean shutdown",
    "stop": "KIP-966, Detection of an unclean shutdown",
    "start": f"{_ELR} 4",
    "reassign": "KIP-966, Other behaviors 4; KIP-455",
    "cancel-reassignment": "KIP-966, Other behaviors 4b",
    "set-min-isr": "KIP-966, Other behaviors 2",
    "set-feature": "KIP-966, Compatibility: ELR",
    "unregister": _ELR,
    "answer": "KIP-966, Unclean recovery",
    "recover": "KIP-966, Unclean recovery",
    "change-controller": "KIP-966, Unclean recovery: failover",
    "designate": "KIP-966, ElectLeaders v3",
}
BEGINNING = "all replicas are in the ISR, broker 1 leads"


def lines(trace: Trace, protocol: Protocol) -> Iterator[str]:
    """Yield the whole trace, two lines a step.

    `protocol` is the variant that it was found in.
    """
    yield f"  0. {BEGINNING}"
    yield "     " + state_line(trace.shared, 0, trace.initial)
    for number, step in enumerate(trace.steps, 1):
        who, what = sentence(step, trace.orders.get(number - 1, step.brokers))
        yield f"{number:>3}. {actor_label(who)} {what}  [{clause_of(step.kind, protocol)}]"
        yield "     " + state_line(step.shared, step.data, step.words)
        if step.lost:
            yield f"     LOST: the new leader does not have {record_names(step.lost)}"


def actor_label(who: str) -> str:
    """Return the actor as its sentence begins; what the environment does has a subject of its own."""
    return f"{who}:" if who == "environment" else who


def tolerance_note(asked: str, bounds: Bounds) -> str:
    """Return what to know of a counterexample with more power losses than KIP-966 tolerates, if any."""
    if asked != "committed" or bounds.power_losses < bounds.min_isr:
        return ""
    return (
        "KIP-966 tolerates min.insync.replicas - 1 replicas without their log at once. A replica that lost power "
        f"counts until it has caught up. power-losses={bounds.min_isr - 1} is tolerated"
    )


def clause_of(kind: str, protocol: Protocol) -> str:
    """Return the clause that such a step follows in this variant.

    A clause of a KIP that the variant does not have is never returned.
    """
    in_force = (
        (protocol.has_elr, _SINCE_ELR),
        (protocol.strict_min_isr, _SINCE_STRICT_MIN_ISR),
        (protocol.checks_epochs, _SINCE_KIP_903),
        (True, _IN_KRAFT),
    )
    return next(clauses[kind] for has, clauses in in_force if has and kind in clauses)


def sentence(step: Step, order: tuple[int, ...] = ()) -> tuple[str, str]:
    """Return who acts, and what happens."""
    who, what = ACTIONS[step.kind]
    values = {
        "broker": step.broker,
        "brokers": "broker " + ", ".join(map(str, step.brokers)),
        "order": ", ".join(str(broker) for broker in order if broker in step.brokers),
        "detail": step.detail,
        "acks": "acks=all" if step.detail else "acks=1",
        "record": _name(unpack(step.data).appended - 1),
    }
    return who.format(**values), what.format(**values)


def state_line(shared: SharedState, data: int, brokers: dict[int, int]) -> str:
    """Return the controller's record, the HW, and each broker with its log, in a line."""
    parts = (f"{name} {value}" for name, value in partition_parts(shared, data, brokers))
    return "  ".join(parts) + "  |  " + "  ".join(_broker(broker, word) for broker, word in brokers.items())


def partition_parts(shared: SharedState, data: int, brokers: dict[int, int]) -> list[tuple[str, str]]:
    """Return the fields of the controller's record and the committed records: names and values."""
    parts = [("leader", brokers_with(w.LEADER, brokers)), ("ISR", brokers_with(w.IN_ISR, brokers))]
    if shared.elr or brokers_with(w.IN_ELR, brokers) != "-":
        parts += [("ELR", brokers_with(w.IN_ELR, brokers)), ("last known", brokers_with(w.LAST_KNOWN, brokers))]
    if shared.in_flight:
        parts.append(("asked", brokers_with(w.PROPOSED, brokers)))
    return [*parts, ("committed", record_names(unpack(data).committed) or "-")]


def brokers_with(flag: int, brokers: dict[int, int]) -> str:
    """Return the ids of the brokers whose control bits have `flag`."""
    return ",".join(str(broker) for broker, word in brokers.items() if word >> DATA_BITS & flag) or "-"


def _broker(broker: int, word: int) -> str:
    control = word >> DATA_BITS
    if not control & w.UP:
        state = " stopped" if control & w.CLEAN else " down"
    else:
        state = "" if control & w.UNFENCED else " fenced"
    spare = "" if control & w.REPLICA else " no replica"
    flushed = word >> MAX_RECORDS & LOG
    durable = f", flushed {record_names(flushed)}" if flushed else ""
    answer = f", answered {record_names(control >> w.ANSWER_AT & LOG) or '-'}" if control & w.ANSWERED else ""
    return f"{broker}: {record_names(word & LOG) or '-'}{durable}{answer}{state}{spare}"


def record_names(mask: int) -> str:
    """Return the records of a mask, a letter each."""
    return "".join(_name(record) for record in range(MAX_RECORDS) if mask >> record & 1)


def _name(record: int) -> str:
    return "abcdefghijkl"[record]
