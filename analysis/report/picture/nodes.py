"""The lane of each node: what the steps did to it, and what the controller said of it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import pairwise
from typing import NamedTuple

import msgspec

from analysis.judge.history.steps import unclean_registrations
from analysis.record.timeline import Lasting, Timeline, lasting
from analysis.report.picture.model import Details, EventMark, NodeLane, NodeState, StateSpan
from analysis.sentences import words
from analysis.sentences.steps import proof
from ebbtide.record.manifest import Topology
from ebbtide.record.rows import BrokerEvent
from ebbtide.record.steps import StepEntry
from ebbtide.scenario.steps.step import LinkProof
from ebbtide.scenario.steps.table import KINDS, TAKES_DOWN, WIRE_KINDS
from ebbtide.scenario.triggers import trigger_text
from ebbtide.scenario.words import CLIENTS

_DISK: dict[str, tuple[NodeState, str]] = {
    "full": ("disk-full", "disk full"),
    "dead": ("disk-dead", "disk failed"),
    "slow": ("disk-slow", "disk slow"),
}
_DOWN_TEXT = {
    "stop": "stopped",
    "kill": "killed",
    "power-loss": "no power",
    "torn-write": "no power",
    "wipe-disk": "disk replaced",
}
_WIRE_TEXT = {
    "hold-request": "held",
    "delay-request": "delayed",
    "drop-request": "dropped",
    "duplicate-request": "sent twice",
}


class _Cut(NamedTuple):
    """One cut as one node sees it: the nodes to or from which nothing passes."""

    begin_ns: int
    end_ns: int | None
    peers: frozenset[int]
    step: StepEntry


def node_name(node: int, topology: Topology) -> str:
    """Return what a person calls a node: `broker 2`, `controller 100`, `clients`; a combined node is a broker."""
    if node == CLIENTS:
        return "clients"
    is_controller = node in topology.controllers and node not in topology.brokers
    return f"{'controller' if is_controller else 'broker'} {node}"


def step_details(step: StepEntry, zero_ns: int) -> Details:
    """Return what is known of a step: its trigger, its times, the nodes that it hit, its proof."""
    rows = (
        ("step", f"{step.index} {step.step}"),
        ("on", step.whom or words.nodes(step.nodes)),
        ("when", trigger_text(step.trigger) or "at once"),
        ("fired", words.offset_s(step.fired_ns, zero_ns)),
        ("took effect", words.offset_s(step.effect_ns, zero_ns) if step.effect_ns is not None else ""),
        ("healed", words.offset_s(step.healed_ns, zero_ns) if step.healed_ns is not None else ""),
        ("proof", proof(step)),
    )
    return tuple((name, value) for name, value in rows if value and value != "-")


def lanes_of(topology: Topology, timeline: Timeline, steps: Sequence[StepEntry], zero_ns: int) -> tuple[NodeLane, ...]:
    """Return a lane for each broker, then for each other controller; composed steps are split already."""
    fired = [step for step in steps if step.fired_ns is not None]
    unclean = {event.metadata_offset for event in unclean_registrations(fired, timeline.brokers)}
    brokers = sorted({*topology.brokers, *(event.broker for event in timeline.brokers)})
    topology = msgspec.structs.replace(topology, brokers=tuple(brokers))
    lanes = []
    for node in (*brokers, *sorted({*topology.controllers} - {*brokers})):
        events = [event for event in timeline.brokers if event.broker == node]
        lanes.append(
            NodeLane(
                node=node,
                name=node_name(node, topology),
                is_broker=node in brokers,
                is_combined=node in brokers and node in topology.controllers,
                condition=tuple(sorted(_conditions(node, fired, topology, zero_ns), key=lambda span: span.begin_ns)),
                registration=tuple(_registration(events, zero_ns)),
                marks=tuple(_marks(events, unclean, zero_ns)),
            )
        )
    return tuple(lanes)


def _conditions(node: int, steps: Iterable[StepEntry], topology: Topology, zero_ns: int) -> Iterator[StateSpan]:
    cuts: list[_Cut] = []
    for step in steps:
        assert step.fired_ns is not None
        kind = KINDS.get(step.step)
        peers = _cut_peers(node, step)
        if peers:
            cuts.append(_Cut(step.fired_ns, step.healed_ns, peers, step))
            continue
        if kind is None or node not in step.nodes:
            continue
        found = _condition(step, kind.volume)
        if found is None:
            continue
        state, text = found
        if (directory := step.asked.directory) is not None:
            text = f"{text} (log directory {directory})"
        begins_ns = step.effect_ns if step.step in WIRE_KINDS else step.fired_ns
        if begins_ns is None:
            continue
        yield StateSpan(
            begin_ns=begins_ns,
            end_ns=step.healed_ns,
            state=state,
            text=text,
            details=step_details(step, zero_ns),
            step=step.index,
        )
    yield from _cut_spans(node, cuts, topology, zero_ns)


def _condition(step: StepEntry, volume: str | None) -> tuple[NodeState, str] | None:
    """Return the state in which a step leaves its target, with its text."""
    if step.step in TAKES_DOWN:
        return "down", _DOWN_TEXT.get(step.step, step.step)
    if step.step == "pause":
        return "paused", "paused"
    if step.step == "limit-bandwidth":
        return "slow-link", "slow links"
    if step.step in WIRE_KINDS:
        return "requests-held", f"{step.asked.api or 'requests'} {_WIRE_TEXT.get(step.step, step.step)}"
    return _DISK[volume] if volume is not None else None


def _cut_peers(node: int, step: StepEntry) -> frozenset[int]:
    """Return the nodes to or from which the step lets nothing of `node` pass."""
    links = step.figures(LinkProof).cuts
    if step.step != "partition" or links is None:
        return frozenset()
    return frozenset(b if a == node else a for a, b in links.pairs if node in (a, b))


def _cut_spans(node: int, cuts: list[_Cut], topology: Topology, zero_ns: int) -> Iterator[StateSpan]:
    """Yield the times in which the node is cut from the same nodes, over cuts that overlap."""
    others = {*(topology.controllers if node in topology.brokers else topology.brokers)} - {node}
    everyone = {*topology.brokers, *topology.controllers, CLIENTS} - {node}
    for begin_ns, end_ns, peers, active in _without_overlaps(cuts):
        is_off = bool(others) and peers >= others
        # In ascending order, the clients last.
        ordered = sorted(peers, key=lambda node: (node == CLIENTS, node))
        peers_text = "everyone" if peers >= everyone else ", ".join(node_name(one, topology) for one in ordered)
        yield StateSpan(
            begin_ns=begin_ns,
            end_ns=end_ns,
            state="cut-off" if is_off else "cut",
            text=f"cut from {peers_text}",
            details=tuple(row for cut in active for row in step_details(cut.step, zero_ns)),
            step=active[-1].step.index,
        )


def _without_overlaps(cuts: list[_Cut]) -> list[tuple[int, int | None, frozenset[int], list[_Cut]]]:
    """Return begin, end, peers and cuts of each time in which the peers are the same."""
    last = max((cut.end_ns or cut.begin_ns for cut in cuts), default=0) + 1
    edges = sorted({edge for cut in cuts for edge in (cut.begin_ns, cut.end_ns or last)})
    found: list[tuple[int, int | None, frozenset[int], list[_Cut]]] = []
    for begin_ns, until_ns in pairwise(edges):
        active = [cut for cut in cuts if cut.begin_ns <= begin_ns and (cut.end_ns or last) >= until_ns]
        if not active:
            continue
        end_ns = None if until_ns == last else until_ns
        peers = frozenset[int]().union(*(cut.peers for cut in active))
        if found and found[-1][1] == begin_ns and found[-1][2] == peers:
            begin_ns, _, _, active = found.pop()
        found.append((begin_ns, end_ns, peers, active))
    return found


def _event_details(event: BrokerEvent, zero_ns: int) -> Details:
    rows = (
        ("metadata offset", str(event.metadata_offset)),
        ("at", words.offset_s(event.at_ns, zero_ns)),
        ("broker epoch", str(event.broker_epoch)),
        ("incarnation", event.incarnation or ""),
    )
    return tuple((name, value) for name, value in rows if value)


_REGISTRATIONS: Mapping[str, NodeState | None] = {
    "registered": "fenced",
    "fenced": "fenced",
    "shutting_down": "shutting-down",
    "unregistered": "unregistered",
    "unfenced": None,
}


def _registration(events: Sequence[BrokerEvent], zero_ns: int) -> Iterator[StateSpan]:
    """Yield what the controller says of a broker while that is not `unfenced`."""
    known = [(event.at_ns, event) for event in events if event.event in _REGISTRATIONS]
    spans: Iterator[Lasting[NodeState, BrokerEvent]] = lasting(known, lambda event: _REGISTRATIONS[event.event])
    for one in spans:
        yield StateSpan(
            begin_ns=one.begin_ns,
            end_ns=one.end_ns,
            state=one.state,
            text=one.state.replace("-", " "),
            details=_event_details(one.row, zero_ns),
        )


def _marks(events: Sequence[BrokerEvent], unclean: set[int], zero_ns: int) -> Iterator[EventMark]:
    for event in events:
        if event.event == "registered":
            is_unclean = event.metadata_offset in unclean
            yield EventMark(
                at_ns=event.at_ns,
                kind="registered-unclean" if is_unclean else "registered",
                text="registered after an unclean shutdown" if is_unclean else "registered",
                details=_event_details(event, zero_ns),
            )
