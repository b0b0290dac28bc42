"""A counterexample in words: per step who acts, what happens, on which clause, and the state after it."""

from __future__ import annotations

from collections.abc import Iterator

from analysis.spec.explore.trace import Step, Trace
from analysis.spec.model import words as w
from analysis.spec.model.words import DATA_BITS, LOG, MAX_RECORDS, Shared, unpack

_ELR = "KIP-966, Controller behaviors"

_WORDS: dict[str, tuple[str, str, str]] = {
    "append": ("producer", "sends record {record} ({acks}) to broker {broker}", "KIP-966, HW requirement"),
    "fetch": ("broker {broker}", "fetches from the leader, cutting its log to the leader's first", "KIP-101, KIP-279"),
    "advance-hw": ("broker {broker}", "moves the HW to what the maximal ISR has", "KIP-966, HW requirement"),
    "ask-expand": ("leader", "asks for an ISR with broker {broker} (AlterPartition leaves)", "KIP-841, KIP-903"),
    "ask-shrink": ("leader", "asks for an ISR without {brokers} (AlterPartition leaves)", "replica.lag.time.max.ms"),
    "deliver": ("controller", "decides on the AlterPartition request", f"{_ELR} 1; KIP-903"),
    "fence": ("controller", "fences broker {broker}: its session expired", f"{_ELR} 2"),
    "unfence": ("controller", "unfences broker {broker}", f"{_ELR} 3"),
    "power-loss": ("environment", "broker {broker} loses power and what it had not flushed", "KIP-966, Motivation"),
    "kill": ("environment", "broker {broker} is killed; its log stays", "KIP-966, Detection of an unclean shutdown"),
    "stop": ("operator", "stops broker {broker} cleanly", "KIP-966, Detection of an unclean shutdown"),
    "start": ("operator", "starts broker {broker}, which registers", f"{_ELR} 4"),
    "replace-disk": ("operator", "replaces the disk of broker {broker}", "KIP-903, Motivation"),
    "reassign": ("operator", "reassigns the partition to {order}", "KIP-966, Other behaviors 4; KIP-455"),
    "cancel-reassignment": ("operator", "cancels the reassignment", "KIP-966, Other behaviors 4b"),
    "set-min-isr": ("operator", "sets min.insync.replicas to {detail}", "KIP-966, Other behaviors 2"),
    "apply-config": ("leader", "reads the new min.insync.replicas from the metadata log", "KIP-966, HW requirement"),
    "set-feature": ("operator", "sets eligible.leader.replicas.version to {detail}", "KIP-966, Compatibility: ELR"),
    "unregister": ("operator", "unregisters broker {broker}", _ELR),
    "resize-first-partition": (
        "operator",
        "reassigns partition 0 of the topic to {detail} replica(s)",
        "ReplicationControlManager.getTopicEffectiveMinIsr",
    ),
    "elect-preferred": ("operator", "asks for a preferred election", "KIP-460"),
    "elect-unclean": ("operator", "asks for an unclean election", "KIP-460"),
    "recover": ("controller", "recovers with the logs of {detail} replica(s)", "KIP-966, Unclean recovery"),
}


def lines(trace: Trace) -> Iterator[str]:
    """The whole trace, two lines a step."""
    yield "  0. all replicas are in the ISR, broker 1 leads"
    yield "     " + state_line(trace.shared, 0, trace.initial)
    for number, step in enumerate(trace.steps, 1):
        who, what, clause = sentence(step, trace.orders.get(number - 1, step.brokers))
        yield f"{number:>3}. {who} {what}  [{clause}]"
        yield "     " + state_line(step.shared, step.data, step.words)
        if step.lost:
            yield f"     LOST: the new leader does not have {_records(step.lost)}"


def sentence(step: Step, order: tuple[int, ...] = ()) -> tuple[str, str, str]:
    """Who acts, what happens, and the clause it goes by."""
    who, what, clause = _WORDS[step.kind]
    values = {
        "broker": step.broker,
        "brokers": "broker " + ", ".join(map(str, step.brokers)),
        "order": ", ".join(str(broker) for broker in order if broker in step.brokers),
        "detail": step.detail,
        "acks": "acks=all" if step.detail else "acks=1",
        "record": _name(unpack(step.data).appended - 1),
    }
    return who.format(**values), what.format(**values), clause


def state_line(shared: Shared, data: int, brokers: dict[int, int]) -> str:
    """The controller's record, the HW, and each broker with its log."""

    def having(flag: int) -> str:
        return ",".join(str(broker) for broker, word in brokers.items() if word >> DATA_BITS & flag) or "-"

    parts = [f"leader {having(w.LEADER)}", f"ISR {having(w.IN_ISR)}"]
    if shared.elr or having(w.IN_ELR) != "-":
        parts += [f"ELR {having(w.IN_ELR)}", f"last known {having(w.LAST_KNOWN)}"]
    if shared.in_flight:
        parts.append(f"asked {having(w.PROPOSED)}")
    parts.append(f"committed {_records(unpack(data).committed)}")
    return "  ".join(parts) + "  |  " + "  ".join(_broker(broker, word) for broker, word in brokers.items())


def _broker(broker: int, word: int) -> str:
    control = word >> DATA_BITS
    if not control & w.UP:
        state = " stopped" if control & w.CLEAN else " down"
    else:
        state = "" if control & w.UNFENCED else " fenced"
    spare = "" if control & w.REPLICA else " no replica"
    flushed = word >> MAX_RECORDS & LOG
    durable = f", flushed {_records(flushed)}" if flushed else ""
    return f"{broker}: {_records(word & LOG)}{durable}{state}{spare}"


def _records(mask: int) -> str:
    return "".join(_name(record) for record in range(MAX_RECORDS) if mask >> record & 1) or "-"


def _name(record: int) -> str:
    return "abcdefghijkl"[record]
