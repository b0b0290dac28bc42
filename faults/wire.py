"""Wire faults: requests of one Kafka API are held, delayed, dropped or sent twice.

They are proven by the requests to which that really happened. A rule is armed at once, and takes effect when the
first matching request or answer comes by; a rule that matched nothing is not proven. All events of the proxies are
kept in the record's `wire.jsonl`.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from functools import partial
from typing import Any

import msgspec

from cluster.runtime.base import NodeInfo
from cluster.runtime.cluster import Runtime
from cluster.wire.messages import Action, Arm, Direction, Release, Rule, WireEvent
from ebbtide.record.files import WIRE_FILE, RecordFolder
from ebbtide.scenario.api_keys import API_KEYS, API_NAMES
from ebbtide.scenario.steps.step import StepSpec, target_of
from ebbtide.scenario.steps.wire import (
    DelayRequestStep,
    DirectedRuleStep,
    DropRequestStep,
    DuplicateRequestStep,
    HoldRequestStep,
    ReleaseStep,
    RuleStep,
)
from ebbtide.scenario.words import CLIENTS
from ebbtide.waiting import wait_until
from faults.base import Effect, proven_effect, unproven_effect
from faults.injector import Family, Injector, Plan

ANSWER_TIMEOUT_S = 5.0
PROXY_TIMEOUT_S = 5.0

ACTIONS: dict[type[StepSpec], Action] = {
    HoldRequestStep: "hold",
    DelayRequestStep: "delay",
    DropRequestStep: "drop",
    DuplicateRequestStep: "duplicate",
}
_HAPPENS = {"hold": "held", "delay": "forwarded", "drop": "dropped", "duplicate": "discarded"}
_DONE = {"hold": "held", "delay": "delayed", "drop": "dropped", "duplicate": "answered_twice"}


class WireRule(msgspec.Struct, frozen=True, kw_only=True):
    """A wire rule: requests of `api` that the `nodes` send, or the answers to them.

    `nodes` may contain CLIENTS. `peers` are the nodes asked (none: all). `times`: how many are affected (None: all).
    `late`: what is held outlives its sender's connection.
    """

    action: Action
    nodes: tuple[int, ...]
    api: str
    direction: Direction = "request"
    peers: tuple[int, ...] = ()
    delay_s: float = 0.0
    times: int | None = None
    late: bool = False


class ArmedRule:
    """A wire rule in force at its nodes, and what happened to it."""

    def __init__(self, number: int, wire_rule: WireRule, description: str) -> None:
        """`description`: which requests the rule concerns, in words."""
        self.number = number
        self.wire_rule = wire_rule
        self.in_force = True
        self._description = description
        self.events: list[tuple[int, WireEvent]] = []

    def count(self, what: str) -> int:
        """Return how often the event `what` happened to it."""
        return sum(event.event == what for _, event in self.events)

    def forwarded_bytes(self) -> int:
        """Return the bytes of what was stopped and went on."""
        return sum(event.size_bytes or 0 for _, event in self.events if event.event == "forwarded")

    def nodes_reporting(self, what: str) -> set[int]:
        """Return the nodes whose proxies reported the event `what`."""
        return {node for node, event in self.events if event.event == what}

    def effect(self) -> Effect:
        """Return what the rule has done so far.

        A hold is proven by a held request, a delay by a late one, a drop by a closed connection, a duplicate by an
        answered copy.
        """
        did = [(node, event) for node, event in self.events if event.event == _HAPPENS[self.wire_rule.action]]
        if self.wire_rule.action == "delay":
            did = [(node, event) for node, event in did if (event.waited_s or 0.0) >= self.wire_rule.delay_s]
        figures: dict[str, object] = {"rule": self.number, _DONE[self.wire_rule.action]: len(did)}
        if self.wire_rule.action == "delay" and did:
            waited_ms = [round((event.waited_s or 0.0) * 1000, 1) for _, event in did]
            figures |= {"waited_ms_min": min(waited_ms), "waited_ms_max": max(waited_ms)}
        passed = self._passed_requests()
        if passed is not None:
            figures["passed"] = passed
        if not did and self.wire_rule.action == "delay" and self.count("held"):
            whole = f"{self.wire_rule.delay_s:g} s"
            why = f"no {self._description} waited for the whole {whole}: the rule or the connection ended first"
            return unproven_effect(why, **figures)
        if not did:
            return unproven_effect(f"no {self._description} came by", **figures)
        node, first = did[0]
        seen = {API_NAMES.get(api, str(api)): times for api, times in (first.seen or {}).items()}
        figures["first"] = {
            "node": node,
            "peer": first.peer,
            "connection": first.connection,
            "correlation": first.correlation,
            "version": first.version,
            "size_bytes": first.size_bytes,
            **({"connection_saw": seen} if seen else {}),
            **({"diverging": msgspec.to_builtins(first.diverging)} if first.diverging else {}),
        }
        return msgspec.structs.replace(proven_effect(**figures), effect_ns=first.at_ns)

    def _passed_requests(self) -> dict[str, int] | None:
        """Return how many requests of each API passed while the rule was in force.

        None while it is in force.
        """
        before: dict[int, Counter[int]] = {}
        passed: Counter[int] = Counter()
        if self.in_force:
            return None
        for node, event in self.events:
            if event.event == "armed":
                before[node] = Counter(event.passed)
            elif event.event == "released":
                passed += Counter(event.passed) - before.get(node, Counter())
        return {API_NAMES.get(api, str(api)): times for api, times in sorted(passed.items())}


class WireFaults:
    """The wire rules of one run."""

    def __init__(self, runtime: Runtime, record: RecordFolder) -> None:
        self._runtime = runtime
        self._journal = record / WIRE_FILE
        self._rules: dict[int, ArmedRule] = {}
        self._held: Counter[tuple[int, int]] = Counter()

    def family(self, injector: Injector) -> Family:
        """How each kind is carried out."""
        rules: dict[type[StepSpec], Callable[[Any], Plan]] = {
            kind: partial(self._plan_rule, injector) for kind in ACTIONS
        }
        return Family(plans={**rules, ReleaseStep: partial(self._plan_release, injector)})

    def arm(self, wire_rule: WireRule) -> ArmedRule:
        """Put a rule in force; returns once every proxy has it. Raises `HarnessError`."""
        number = len(self._rules) + 1
        armed = self._rules[number] = ArmedRule(number, wire_rule, self._describe(wire_rule))
        rule = Rule(
            number=number,
            action=wire_rule.action,
            api=API_KEYS[wire_rule.api],
            direction=wire_rule.direction,
            peers=tuple(self._runtime.nodes[peer].address for peer in wire_rule.peers),
            delay_s=wire_rule.delay_s,
            times=wire_rule.times,
            late=wire_rule.late,
        )
        for node in wire_rule.nodes:
            self._runtime.wire.send(node, Arm(rule))
        self._await(armed, "armed")
        return armed

    def rules_in_force(self, nodes: Collection[int] | None = None) -> list[ArmedRule]:
        """Return the rules at any of these nodes, or at any node."""
        return [
            armed
            for armed in self._rules.values()
            if armed.in_force and (nodes is None or not set(nodes).isdisjoint(armed.wire_rule.nodes))
        ]

    def release(self, rules: Sequence[ArmedRule]) -> Effect:
        """End these rules. Proven when held bytes went on.

        Without a hold it is proven when the proxies ended the rules. Waits a moment for the answers to the requests
        that went on, so that later steps find them answered.
        """
        for armed in rules:
            for node in armed.wire_rule.nodes:
                self._runtime.wire.send(node, Release(armed.number))
            self._await(armed, "released")
            armed.in_force = False
        holds = [armed for armed in rules if armed.wire_rule.action == "hold"]
        self._await_answers([armed for armed in holds if armed.wire_rule.direction == "request"])
        figures = {
            "forwarded": sum(armed.count("forwarded") for armed in holds),
            "forwarded_bytes": sum(armed.forwarded_bytes() for armed in holds),
            "answered": sum(armed.count("answered") for armed in holds),
            "abandoned": sum(armed.count("abandoned") for armed in holds),
            **({"outlived": outlived} if (outlived := sum(armed.count("outlived") for armed in holds)) else {}),
        }
        if not rules:
            return unproven_effect("no rule is in force there", **figures)
        if holds and not figures["forwarded"]:
            gone = [event.waited_s or 0.0 for armed in holds for _, event in armed.events if event.event == "abandoned"]
            why = f"every held request is gone: its connection was closed after {gone[-1]:.1f} s" if gone else ""
            return unproven_effect(why or "nothing was held", **figures)
        if any(armed.wire_rule.late for armed in holds) and "outlived" not in figures:
            return unproven_effect("no held request outlived its sender's connection: none was late", **figures)
        return proven_effect(**figures)

    def held_count(self, nodes: Iterable[int], api: str) -> int:
        """Return how many requests or answers of `api` are held or delayed at these nodes."""
        return sum(self._held[node, API_KEYS[api]] for node in nodes)

    def poll(self) -> None:
        """Read the proxies' events. Raises `HarnessError` when a proxy died."""
        if not self._rules:
            return
        events = self._runtime.wire.poll()
        for node, event in events:
            armed = self._rules.get(event.rule)
            if armed is not None:
                armed.events.append((node, event))
            if event.api is not None and event.event == "held":
                self._held[node, event.api] += 1
            elif event.api is not None and event.event in ("forwarded", "abandoned"):
                self._held[node, event.api] -= 1
        if events:
            with self._journal.open("ab") as journal:
                journal.writelines(self._line(node, event) for node, event in events)

    def _plan_rule(self, injector: Injector, step: RuleStep) -> Plan:
        nodes = injector.view.resolve(step.target)
        wire_rule = WireRule(
            action=ACTIONS[type(step)],
            nodes=nodes,
            api=step.api,
            direction=(step.direction if isinstance(step, DirectedRuleStep) else None) or "request",
            peers=injector.view.resolve_all(step.to),
            delay_s=step.delay.seconds if isinstance(step, DelayRequestStep) else 0.0,
            times=step.times,
            late=isinstance(step, HoldRequestStep) and bool(step.late),
        )
        return Plan(nodes=nodes, description=f"{wire_rule.api} {self._names(nodes)}", act=lambda: self.arm(wire_rule))

    def _plan_release(self, injector: Injector, step: ReleaseStep) -> Plan:
        nodes = None if step.target is None else injector.view.resolve(step.target)
        rules = self.rules_in_force(nodes)
        ended = tuple(sorted({node for rule in rules for node in rule.wire_rule.nodes}))
        return Plan(nodes=ended, description=self._names(ended), act=lambda: self.release(rules))

    def _line(self, node: int, event: WireEvent) -> bytes:
        row = msgspec.to_builtins(event)
        ids = {info.address: info.id for info in self._runtime.nodes.values()}
        if event.api is not None:
            row |= {"api": API_NAMES.get(event.api, event.api), "peer": ids.get(event.peer or "", event.peer)}
        for key in row.keys() & {"seen", "passed"}:
            row[key] = {API_NAMES.get(int(api), api): times for api, times in row[key].items()}
        return msgspec.json.encode({"at_ns": row.pop("at_ns"), "node": node, **row}) + b"\n"

    def _await(self, armed: ArmedRule, what: str) -> None:
        def is_reported() -> bool:
            self.poll()
            return set(armed.wire_rule.nodes) <= armed.nodes_reporting(what)

        wait_until(is_reported, awaited=f"the wire proxies to say {what}", timeout_s=PROXY_TIMEOUT_S)

    def _await_answers(self, rules: Sequence[ArmedRule]) -> None:
        ends = time.monotonic() + ANSWER_TIMEOUT_S

        def is_all_answered() -> bool:
            self.poll()
            owed = sum(armed.count("forwarded") - armed.count("answered") for armed in rules)
            return owed <= 0 or time.monotonic() >= ends

        wait_until(is_all_answered, awaited="the answers", timeout_s=ANSWER_TIMEOUT_S + 1.0)

    def _describe(self, wire_rule: WireRule) -> str:
        what = (
            f"{wire_rule.api} request" if wire_rule.direction == "request" else f"answer to a request {wire_rule.api}"
        )
        peers = f" to {self._names(wire_rule.peers)}" if wire_rule.peers else ""
        return f"{what} of {self._names(wire_rule.nodes)}{peers}"

    def _names(self, nodes: Iterable[int]) -> str:
        return ", ".join("clients" if node == CLIENTS else self._runtime.nodes[node].name for node in nodes)


def nodes_to_intercept(steps: Iterable[StepSpec], nodes: Mapping[int, NodeInfo]) -> dict[int, str]:
    """Return the nodes (id to name), and CLIENTS, that a wire step may resolve to."""
    named: dict[str, frozenset[int]] = {}
    found: set[int] = set()
    everyone = frozenset((CLIENTS, *nodes))
    brokers = frozenset(node.id for node in nodes.values() if node.role == "broker")
    for step in steps:
        who = everyone
        role = target_of(step)
        if role is not None:
            match role.kind:
                case "step":
                    who = named.get(str(role.argument), everyone)
                case "clients":
                    who = frozenset({CLIENTS})
                case "controller" if role.controller is not None:
                    who = frozenset({role.controller})
                case "controller" | "controllers":
                    who = everyone - brokers - {CLIENTS}
                case "broker":
                    who = frozenset({role.broker} if role.broker is not None else ())
                case _:
                    who = brokers
        if step.name is not None:
            named[step.name] = who
        if isinstance(step, RuleStep):
            found |= who
    return {node: "clients" if node == CLIENTS else nodes[node].name for node in sorted(found)}
