"""Injects the faults of a script, and writes the steps with their proofs as the harness does."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any, NamedTuple

from ebbtide.record.node_times import NodeTimes, Span
from ebbtide.record.steps import CutSides, StepEntry
from ebbtide.releases.known_releases import ELR_VERSION, METADATA_VERSION
from simulator.controller import CONTROLLER, MIN_ISR, TOPIC, UNCLEAN
from simulator.script import MS, SECOND, Fault

if TYPE_CHECKING:
    from simulator.simulation import Broker, Simulation

CLIENT = 0
BYTES = 70
_ENDS_NODES = ("kill", "power-loss", "wipe-disk")
_ASKS = 120 * MS
"""How long a request takes before and after it has its effect."""
START_NS = 1_760_000_000_000_000_000


def ns(at: int) -> int:
    """Return a simulated time as the clock of the run shows it."""
    return START_NS + at * 1_000


class DiskTaken(NamedTuple):
    """A broker's disk lost records at a time, by a step that began at `fired`; `ends`: how long its logs were."""

    node: int
    fired: int
    at: int
    ends: dict[int, int]


class OpenStep:
    """A step that goes on; the harness writes it when it ends."""

    def __init__(self, kind: str, nodes: tuple[int, ...], at: int) -> None:
        self.kind = kind
        self.nodes = nodes
        self.fired = at
        self.effect: int | None = None
        self.healed: int | None = None
        self.proof: dict[str, Any] = {"probe": "ok"}
        self.of_node: dict[int, NodeTimes] = {}
        self.parameters: dict[str, Any] = {}
        self.sides: CutSides | None = None
        self.whom: str | None = None

    def entry(self, index: int) -> StepEntry:
        """Return the line of steps.jsonl."""
        proof = self.proof
        if len(self.nodes) == 1 and self.nodes[0] in proof.get("nodes", {}):
            proof = {"probe": "ok", **proof["nodes"][self.nodes[0]]}
        return StepEntry(
            index=index,
            step=self.kind,
            nodes=self.nodes,
            whom=self.whom,
            sides=self.sides,
            trigger={"after": "0s"},
            fired_ns=ns(self.fired),
            effect_ns=None if self.effect is None else ns(self.effect),
            healed_ns=None if self.healed is None else ns(self.healed),
            proof=proof,
            of_node=self.of_node,
            parameters=self.parameters,
        )


class Faults:
    """The faults of a script, and the steps that were made of them."""

    def __init__(self, simulation: Simulation) -> None:
        self._sim = simulation
        self._open: list[OpenStep] = []
        self._to_start: set[int] = set()
        self._ended: list[tuple[OpenStep, int]] = []
        self._cuts: list[tuple[OpenStep, tuple[int, ...], tuple[int, ...]]] = []
        self.disk_losses: list[DiskTaken] = []
        """Brokers that lost what was on a disk, when, and where the log of each partition ended before."""

    def schedule(self, faults: Iterable[Fault]) -> None:
        """Let each fault happen at its time."""
        for fault in faults:
            self._sim.later(max(0, fault.at - self._sim.now), self._inject, fault)

    def steps(self) -> list[StepEntry]:
        """Return the lines of steps.jsonl, by the time at which they fired."""
        acted = [one for one in self._open if one.nodes or one.kind not in _ENDS_NODES]
        ordered = sorted(acted, key=lambda one: one.fired)
        return [one.entry(index) for index, one in enumerate(ordered)]

    def _step(self, kind: str, nodes: tuple[int, ...], **parameters: Any) -> OpenStep:
        step = OpenStep(kind, nodes, self._sim.now)
        step.parameters = parameters
        self._open.append(step)
        return step

    def _inject(self, fault: Fault) -> None:
        sim = self._sim
        match fault.kind:
            case kind if kind in _ENDS_NODES:
                self._take_down(fault)
            case "stop":
                self._stop(fault)
            case "cut":
                self._cut(fault)
            case "pause":
                self._pause(fault)
            case "slow":
                for node in fault.nodes:
                    sim.leading.slow[node] = (sim.now + fault.lasts, fault.number)
            case "stall":
                sim.clients.stalled_until = max(sim.clients.stalled_until, sim.now + fault.lasts)
            case "hold-isr":
                step = self._step("hold-request", tuple(sim.brokers), api="AlterPartition", to="controllers")
                step.effect, step.healed = sim.now + 2 * MS, sim.now + fault.lasts
                sim.isr_held_until = max(sim.isr_held_until, sim.now + fault.lasts)
            case "violate":
                sim.is_violating = True
                sim.controller.violation = sim.script.violation
            case "clock":
                self._set_clock(fault)
            case "failover":
                if not sim.controller.is_down:
                    sim.controller.is_down = True
                    sim.later(fault.lasts, self._next_controller)
            case _:
                self._ask(fault)

    def _next_controller(self) -> None:
        sim = self._sim
        sim.controller.is_down = False
        sim.controller.fail_over()
        for broker in sim.brokers.values():
            broker.contact_at = sim.now

    def _ask(self, fault: Fault) -> None:
        """Make a request of an operator."""
        sim, controller = self._sim, self._sim.controller
        if controller.is_down:
            return
        name = f"{TOPIC}-{fault.partition}"
        match fault.kind:
            case "elect":
                step = self._step("elect", (), type="unclean", partition=name)
                took = controller.elect_uncleanly(fault.partition)
                step.fired -= _ASKS
                step.proof["answer"] = "NONE" if took else "ELECTION_NOT_NEEDED"
                # A step that sees the partition late sees a later record of it.
                if took and sim.dice("proof of elect").random() < 0.7:
                    step.proof["record"] = {"metadata_offset": controller.elections[-1].metadata_offset}
                step.effect = sim.now + _ASKS
            case "min-isr":
                step = self._step("set-config", (), topic=TOPIC, name=MIN_ISR, value=str(fault.number))
                controller.set_config(MIN_ISR, fault.number)
                step.effect = sim.now + 10 * MS
            case "unclean":
                value = "true" if fault.number else "false"
                step = self._step("set-config", (), topic=TOPIC, name=UNCLEAN, value=value)
                controller.set_config(UNCLEAN, fault.number)
                step.effect = sim.now + 10 * MS
            case "elr":
                step = self._step("set-feature", (), feature=ELR_VERSION, level=fault.number)
                step.effect = sim.now + _ASKS if controller.set_elr(fault.number) else None
            case "metadata-version":
                step = self._step("set-feature", (), feature=METADATA_VERSION, level=fault.number)
                step.effect = sim.now + _ASKS
                controller.set_metadata_version(fault.number)
            case "recover":
                self._recover(fault.partition)
            case "reassign":
                step = self._step("reassign", (), partition=name, replicas=list(fault.nodes))
                took = controller.reassign(fault.partition, fault.nodes)
                step.fired -= _ASKS
                step.effect = sim.now + _ASKS if took else None

    def _recover(self, number: int) -> None:
        """Let an operator elect the best log of a leaderless partition, as Ebbtide's step does."""
        sim, controller = self._sim, self._sim.controller
        partition, cluster = controller.partitions[number], controller.cluster
        step = self._step("recover", (), partition=f"{TOPIC}-{number}", strategy="proactive")
        logs = {
            node: sim.brokers[node].replicas[number].log
            for node in partition.replicas
            if node in cluster.live and number in sim.brokers[node].replicas
        }
        best = max(logs, key=lambda node: (logs[node][-1].epoch if logs[node] else -1, len(logs[node])), default=None)
        elected = None if best is None else controller.recover(number, best)
        step.fired -= _ASKS
        if elected is not None:
            step.effect = sim.now + _ASKS
            step.proof |= {"chosen": best, "record": {"metadata_offset": elected}}

    def _set_clock(self, fault: Fault) -> None:
        """Set the clock of the controller, or that of the host, which no step does."""
        sim = self._sim
        if not fault.nodes:
            sim.clocks.set_host(fault.number)
            sim.later(fault.lasts, sim.clocks.set_host, -fault.number)
            return
        if sim.clocks.is_controller_set:
            return
        step = self._step("set-clock", fault.nodes)
        step.proof["clock_ahead_ns"] = dict.fromkeys(fault.nodes, fault.number * 1000)
        step.effect = sim.now + 30 * MS
        sim.later(10 * MS, sim.clocks.set_controller, fault.number)
        sim.later(fault.lasts + 50 * MS, self._reset_clock, step)

    def _reset_clock(self, step: OpenStep) -> None:
        self._sim.clocks.set_controller(0)
        step.healed = self._sim.now + 20 * MS

    def _take_down(self, fault: Fault) -> None:
        nodes = tuple(node for node in fault.nodes if self._sim.brokers[node].up)
        if not nodes:
            return
        step = self._step(fault.kind, nodes)
        if len(nodes) > 1:
            step.proof["nodes"] = {}
        share = fault.spread // max(1, len(nodes) - 1)
        dice = self._sim.dice("take-down")
        times = [dice.randint(5, 40) * MS + place * share for place in range(len(nodes))]
        for node, at in zip(nodes, times, strict=True):
            self._sim.later(at, self._end, step, node, fault)
        step.effect = self._sim.now + max(times) + fault.takes + dice.randint(30, 80) * MS
        if fault.kind == "wipe-disk":
            step.effect += dice.randint(200, 1_500) * MS

    def _end(self, step: OpenStep, node: int, fault: Fault) -> None:
        """End a broker's process, and take what the step takes of its disk."""
        sim, broker = self._sim, self._sim.brokers[node]
        if not broker.up:
            # Another step was faster.
            step.nodes = tuple(one for one in step.nodes if one != node)
            return
        sim.end(broker, killed=step.kind == "kill")
        ended = self._measured(step, after=3 * MS)
        step.of_node[node] = NodeTimes(ended=ended)
        self._ended.append((step, node))
        if step.kind != "kill":
            if fault.takes:
                sim.later(fault.takes, self._take_log, step, broker, fault.number)
            else:
                self._take_log(step, broker, fault.number)
        assert step.effect is not None
        self._sim.later(max(fault.lasts, step.effect - sim.now + 10 * MS), self._start, node, broker.life)

    def _measured(self, step: OpenStep, *, after: int) -> Span:
        """Return the span within which a step knows that something happens now: after it fired, before it was done."""
        at, measured = self._sim.now, self._sim.setup.measured
        assert step.effect is not None
        first, last = max(step.fired, at - measured), min(step.effect, at + max(after, measured))
        return Span(first_ns=ns(first), last_ns=ns(last))

    def _take_log(self, step: OpenStep, broker: Broker, directory: int) -> None:
        """Drop what was not flushed, or whole logs, and measure it; `directory` 0: all directories."""
        now = self._sim.now
        ends = {number: len(one.log) for number, one in broker.replicas.items()}
        self.disk_losses.append(DiskTaken(broker.node, step.fired, now, ends))
        gone = self._measured(step, after=25 * MS)
        step.of_node[broker.node] = NodeTimes(ended=step.of_node[broker.node].ended, log_gone=gone)
        logs, lost_bytes = {}, 0
        dice = self._sim.dice(f"disk/{broker.node}")
        for number, replica in sorted(broker.replicas.items()):
            if directory and number % self._sim.setup.directories != directory - 1:
                continue
            before = len(replica.log)
            end = (
                0 if step.kind == "wipe-disk" else dice.choice((replica.flushed, dice.randint(replica.flushed, before)))
            )
            lost = replica.cut(end, "D") * BYTES
            if step.kind == "wipe-disk":
                replica.hw = 0
            logs[f"{TOPIC}-{number}"] = {
                "bytes_before": before * BYTES,
                "bytes_after": end * BYTES,
                "lost_bytes": lost,
                "leo_before": before,
                "leo_after": end,
            }
            lost_bytes += lost
        found: dict[str, Any] = {"lost_bytes": lost_bytes, "logs": logs}
        if directory:
            found["holds"] = list(logs)
            step.parameters["directory"] = directory
        step.proof.setdefault("nodes", {})[broker.node] = found
        if len(step.nodes) > 1:
            step.proof["lost_bytes"] = step.proof.get("lost_bytes", 0) + lost_bytes

    def _stop(self, fault: Fault) -> None:
        for node in fault.nodes[:1]:
            broker = self._sim.brokers[node]
            if broker.up and not broker.stopping:
                step = self._step("stop", (node,))
                self._ended.append((step, node))
                self._sim.begin_stop(broker)
                self._sim.later(fault.lasts + 5 * SECOND, self._start, node, None)

    def stopped(self, node: int) -> None:
        """Note that a clean stop ended."""
        now = self._sim.now
        for step, other in self._ended:
            if step.kind == "stop" and other == node and step.effect is None:
                step.effect = now + 5 * MS
                step.of_node[node] = NodeTimes(ended=Span(first_ns=ns(now - 5 * MS), last_ns=ns(now + 5 * MS)))

    def _start(self, node: int, life: int | None) -> None:
        sim, broker = self._sim, self._sim.brokers[node]
        if broker.up or (life is not None and broker.life != life):
            return
        step = self._step("start", (node,))
        step.effect = sim.now + 5 * MS
        step.of_node[node] = NodeTimes(started=Span(first_ns=ns(sim.now), last_ns=ns(sim.now + 4 * MS)))
        for down, other in self._ended:
            if other == node and down.healed is None:
                down.healed = sim.now
        sim.start(broker)

    def _cut(self, fault: Fault) -> None:
        everyone = (CLIENT, *self._sim.brokers, CONTROLLER)
        others = tuple(node for node in (fault.others or everyone) if node not in fault.nodes)
        step = self._step("partition", tuple(sorted({*fault.nodes, *others})))
        step.effect = self._sim.now + 20 * MS
        links = [f"{one}>{other}" for one in fault.nodes for other in others]
        links += [f"{other}>{one}" for one in fault.nodes for other in others]
        step.proof |= {"cuts": links, "dropped": dict.fromkeys(links, 9)}
        step.sides = CutSides(nodes=(fault.nodes, others))
        step.whom = f"{_words(fault.nodes)} | {_words(others)}"
        self._sim.cut(fault.nodes, others, 1)
        self._cuts.append((step, fault.nodes, others))
        self._sim.later(fault.lasts, self._heal, step, fault.nodes, others)

    def _heal(self, step: OpenStep, ones: tuple[int, ...], others: tuple[int, ...]) -> None:
        if step.healed is None:
            self._sim.cut(ones, others, -1)
            step.healed = self._sim.now + 5 * MS

    def _pause(self, fault: Fault) -> None:
        for node in fault.nodes:
            broker = self._sim.brokers[node]
            if broker.up and broker.paused_until <= self._sim.now:
                step = self._step("pause", (node,))
                step.effect = self._sim.now + 2 * MS
                step.healed = self._sim.now + fault.lasts
                self._sim.pause(broker, fault.lasts)

    def heal_all(self) -> int:
        """Heal cuts and start what is down; returns the present time."""
        for step, ones, others in self._cuts:
            self._heal(step, ones, others)
        for node, broker in self._sim.brokers.items():
            if not broker.up:
                self._start(node, None)
        return self._sim.now

    def elect_leaderless(self) -> None:
        """Let an operator elect uncleanly where nobody leads, so that there is a final log."""
        for number, partition in self._sim.controller.partitions.items():
            if partition.leader < 0:
                self._ask(Fault(at=self._sim.now, kind="elect", partition=number))


def _words(nodes: tuple[int, ...]) -> str:
    names = {CLIENT: "clients", CONTROLLER: f"controller-{CONTROLLER}"}
    return ", ".join(names.get(node, f"broker-{node}") for node in nodes)
