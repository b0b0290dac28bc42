"""Wire faults: requests of one Kafka API held, delayed, dropped or sent twice, proven by those that really were.

A rule is armed at once, and takes effect when the first request, or answer, that it is about comes by; one that
nothing ever met proves nothing. Everything that the proxies tell is kept in the record's `wire.jsonl`.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import msgspec

from cluster.runtime.base import NodeInfo, Runtime
from cluster.wire.messages import Action, Arm, Direction, Release, Rule, WireEvent
from ebbtide.record.files import WIRE_FILE
from ebbtide.scenario.api_keys import API_KEYS, API_NAMES
from ebbtide.scenario.roles import CLIENTS
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
from ebbtide.waiting import wait_until
from faults.base import Effect, proven, unproven
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


class Matter(msgspec.Struct, frozen=True, kw_only=True):
    """What a rule is about: requests of `api` that the `nodes` (or CLIENTS) send, or the answers to them.

    `peers` are the nodes asked (none: all), `times` how many are meant (None: all that come by).
    """

    action: Action
    nodes: tuple[int, ...]
    api: str
    direction: Direction = "request"
    peers: tuple[int, ...] = ()
    delay_s: float = 0.0
    times: int | None = None


class Armed:
    """A rule in force at its nodes, and what it met there."""

    def __init__(self, number: int, matter: Matter, told: str) -> None:
        """`told`: what it is about, in words."""
        self.number = number
        self.matter = matter
        self.in_force = True
        self._told = told
        self.events: list[tuple[int, WireEvent]] = []

    def count(self, what: str) -> int:
        """How often something happened to it."""
        return sum(event.event == what for _, event in self.events)

    def forwarded_bytes(self) -> int:
        """Bytes of what was stopped and went on."""
        return sum(event.size_bytes or 0 for _, event in self.events if event.event == "forwarded")

    def at_proxies(self, what: str) -> set[int]:
        """The nodes whose proxies said so."""
        return {node for node, event in self.events if event.event == what}

    def effect(self) -> Effect:
        """What it did so far: a hold held, a delay let go late, a drop closed a connection, a copy was answered."""
        did = [(node, event) for node, event in self.events if event.event == _HAPPENS[self.matter.action]]
        if self.matter.action == "delay":
            did = [(node, event) for node, event in did if (event.waited_s or 0.0) >= self.matter.delay_s]
        figures: dict[str, Any] = {"rule": self.number, _DONE[self.matter.action]: len(did)}
        if self.matter.action == "delay" and did:
            waited_ms = [round((event.waited_s or 0.0) * 1000, 1) for _, event in did]
            figures |= {"waited_ms_min": min(waited_ms), "waited_ms_max": max(waited_ms)}
        passed = self._passed()
        if passed is not None:
            figures["passed"] = passed
        if not did:
            return unproven(f"no {self._told} came by", **figures)
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
        }
        return msgspec.structs.replace(proven(**figures), effect_ns=first.at_ns)

    def _passed(self) -> dict[str, int] | None:
        """Requests that passed its nodes' proxies while it was in force, by API; None as long as it is."""
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
    """The rules of one run."""

    def __init__(self, runtime: Runtime, record: Path) -> None:
        self._runtime = runtime
        self._journal = record / WIRE_FILE
        self._rules: dict[int, Armed] = {}
        self._held: Counter[tuple[int, int]] = Counter()

    def family(self, injector: Injector) -> Family:
        """How each kind is carried out."""
        rules: dict[type[StepSpec], Callable[[Any], Plan]] = {
            kind: partial(self._plan_rule, injector) for kind in ACTIONS
        }
        return Family(plans={**rules, ReleaseStep: partial(self._plan_release, injector)})

    def arm(self, matter: Matter) -> Armed:
        """Put a rule in force; returns once every proxy has it. Raises `HarnessError`."""
        number = len(self._rules) + 1
        armed = self._rules[number] = Armed(number, matter, self._told(matter))
        rule = Rule(
            number=number,
            action=matter.action,
            api=API_KEYS[matter.api],
            direction=matter.direction,
            peers=tuple(self._runtime.nodes[peer].address for peer in matter.peers),
            delay_s=matter.delay_s,
            times=matter.times,
        )
        for node in matter.nodes:
            self._runtime.wire.send(node, Arm(rule))
        self._await(armed, "armed")
        return armed

    def in_force(self, nodes: Collection[int] | None = None) -> list[Armed]:
        """The rules at any of these nodes, or at any node."""
        return [
            armed
            for armed in self._rules.values()
            if armed.in_force and (nodes is None or not set(nodes).isdisjoint(armed.matter.nodes))
        ]

    def release(self, rules: Sequence[Armed]) -> Effect:
        """End these rules. Proven when bytes that were held went on; without a hold, when the proxies ended the rules.

        Waits a moment for the answers to the requests that went on, so that what follows finds them given.
        """
        for armed in rules:
            for node in armed.matter.nodes:
                self._runtime.wire.send(node, Release(armed.number))
            self._await(armed, "released")
            armed.in_force = False
        holds = [armed for armed in rules if armed.matter.action == "hold"]
        self._await_answers([armed for armed in holds if armed.matter.direction == "request"])
        figures = {
            "forwarded": sum(armed.count("forwarded") for armed in holds),
            "forwarded_bytes": sum(armed.forwarded_bytes() for armed in holds),
            "answered": sum(armed.count("answered") for armed in holds),
            "abandoned": sum(armed.count("abandoned") for armed in holds),
        }
        if not rules:
            return unproven("no rule is in force there", **figures)
        if holds and not figures["forwarded"]:
            gone = [event.waited_s or 0.0 for armed in holds for _, event in armed.events if event.event == "abandoned"]
            why = f"all that was held is gone: its connection was closed after {gone[-1]:.1f} s" if gone else ""
            return unproven(why or "nothing was held", **figures)
        return proven(**figures)

    def held(self, nodes: Iterable[int], api: str) -> int:
        """How many requests or answers of `api` are held or delayed now at these nodes."""
        return sum(self._held[node, API_KEYS[api]] for node in nodes)

    def poll(self) -> None:
        """Read what the proxies told. Raises `HarnessError` when one died."""
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
        matter = Matter(
            action=ACTIONS[type(step)],
            nodes=nodes,
            api=step.api,
            direction=(step.direction if isinstance(step, DirectedRuleStep) else None) or "request",
            peers=injector.view.resolve_all(step.to),
            delay_s=step.delay.seconds if isinstance(step, DelayRequestStep) else 0.0,
            times=step.times,
        )
        return Plan(nodes=nodes, told=f"{matter.api} {self._names(nodes)}", act=lambda: self.arm(matter))

    def _plan_release(self, injector: Injector, step: ReleaseStep) -> Plan:
        nodes = None if step.target is None else injector.view.resolve(step.target)
        rules = self.in_force(nodes)
        ended = tuple(sorted({node for rule in rules for node in rule.matter.nodes}))
        return Plan(nodes=ended, told=self._names(ended), act=lambda: self.release(rules))

    def _line(self, node: int, event: WireEvent) -> bytes:
        row = msgspec.to_builtins(event)
        ids = {info.address: info.id for info in self._runtime.nodes.values()}
        if event.api is not None:
            row |= {"api": API_NAMES.get(event.api, event.api), "peer": ids.get(event.peer or "", event.peer)}
        for key in row.keys() & {"seen", "passed"}:
            row[key] = {API_NAMES.get(int(api), api): times for api, times in row[key].items()}
        return msgspec.json.encode({"at_ns": row.pop("at_ns"), "node": node, **row}) + b"\n"

    def _await(self, armed: Armed, what: str) -> None:
        def said() -> bool:
            self.poll()
            return set(armed.matter.nodes) <= armed.at_proxies(what)

        wait_until(said, awaited=f"the wire proxies to say {what}", timeout_s=PROXY_TIMEOUT_S)

    def _await_answers(self, rules: Sequence[Armed]) -> None:
        ends = time.monotonic() + ANSWER_TIMEOUT_S

        def answered() -> bool:
            self.poll()
            owed = sum(armed.count("forwarded") - armed.count("answered") for armed in rules)
            return owed <= 0 or time.monotonic() >= ends

        wait_until(answered, awaited="the answers", timeout_s=ANSWER_TIMEOUT_S + 1.0)

    def _told(self, matter: Matter) -> str:
        what = f"{matter.api} request" if matter.direction == "request" else f"answer to a request {matter.api}"
        peers = f" to {self._names(matter.peers)}" if matter.peers else ""
        return f"{what} of {self._names(matter.nodes)}{peers}"

    def _names(self, nodes: Iterable[int]) -> str:
        return ", ".join("clients" if node == CLIENTS else self._runtime.nodes[node].name for node in nodes)


def tapped(steps: Iterable[StepSpec], nodes: Mapping[int, NodeInfo]) -> dict[int, str]:
    """The nodes (id to name), and CLIENTS, that a wire step of the schedule may resolve to."""
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
