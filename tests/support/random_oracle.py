"""Judges random schedules by rules of its own.

The rules say what a step does to a node, and which triggers are certain to come.
"""

from __future__ import annotations

from packaging.version import Version

from ebbtide.releases.feature_levels import levels_of
from ebbtide.scenario.model import Scenario
from ebbtide.scenario.steps.admin import MoveReplicaStep, VoterStep
from ebbtide.scenario.steps.process import UpgradeStep
from ebbtide.scenario.steps.step import StepSpec, target_of
from ebbtide.scenario.steps.table import DISK_TROUBLES, HEALED_BY, LOSES_POWER, NETWORK_FAULTS, TAKES_DOWN
from ebbtide.scenario.triggers import AckedTrigger, AfterTrigger, BrokerTrigger
from ebbtide.scenario.words import Role

NEEDS_A_RUNNING_NODE = TAKES_DOWN | {"pause", "restart"} | DISK_TROUBLES | {"slow-disk"}
SOUND, DOWN, PAUSED, SICK, UNSURE = "sound", "down", "paused", "sick", "unsure"


class Oracle:
    """Follows a schedule, and says in `wrong` what cannot be done or cannot come.

    `wrong` has sentences.
    """

    def __init__(self, scenario: Scenario) -> None:
        self.wrong: list[str] = []
        self.node = {f"broker({id})": SOUND for id in range(1, scenario.cluster.brokers + 1)}
        self.formed_on, self.features = scenario.kafka[0], scenario.cluster.features
        self.releases = dict.fromkeys((*self.node, "controllers"), self.formed_on)
        self.fault: dict[str, str] = {}
        self.log_dirs = scenario.cluster.log_dirs or 1
        ids = range(100, 100 + scenario.cluster.controllers)
        self.controllers = set(ids) if scenario.cluster.has_dynamic_quorum else set()
        self.controller: str | None = None
        self.links: set[str] = set()
        self.rules = 0
        self.in_ = set(self.node)
        """Brokers that the controller surely had let in before whatever was done to them."""
        self.fenced: set[str] = set()
        self.returns: set[str] = set()
        self.written_back: set[str] = set()
        """Brokers whose file system was frozen since they started, so that a power loss can take nothing."""
        for index, step in enumerate(scenario.steps):
            for problem in (*self._trigger(index, step), *self._step(step)):
                self.wrong.append(f"step {index} ({step.step} {target_of(step)}): {problem}")

    def left_broken(self) -> list[str]:
        """Return what no step has healed.

        No schedule can say whether a node still runs after its disk was full.
        """
        left = [f"{name} {state}" for name, state in self.node.items() if state not in (SOUND, UNSURE)]
        left += [f"controller {self.controller}"] if self.controller else []
        return left + sorted(self.links) + ["rules on the wire"] * bool(self.rules)

    @property
    def _calm(self) -> bool:
        return not self.links and not self.rules and self.controller is None

    def _trigger(self, index: int, step: StepSpec) -> list[str]:
        trigger = step.trigger
        if step.optional or trigger is None or isinstance(trigger, AfterTrigger):
            return []
        if isinstance(trigger, AckedTrigger):
            return [] if index == 0 else ["acked may stand still"]
        if not isinstance(trigger, BrokerTrigger):
            return ["waits hard for a state"]
        broker, state = str(trigger.broker), trigger.state
        if state == "fenced" and broker in self.fenced and self._calm:
            return []
        if state == "unfenced" and broker in self.returns and self._calm:
            self.in_.add(broker)
            self.returns.discard(broker)
            return []
        return [f"waits hard for {broker} to be {state}, which may never be"]

    def _step(self, step: StepSpec) -> list[str]:
        kind, target = step.step, target_of(step)
        if kind in NETWORK_FAULTS:
            self.links.add(kind)
        elif kind == "heal":
            found = [] if self.links else ["nothing to heal"]
            self.links.clear()
            return found
        elif kind == "flap":
            return ["a cut is in force"] if self.links else []
        elif HEALED_BY.get(kind) == "release":
            self.rules += 1
        elif kind == "release":
            found = [] if self.rules else ["nothing to release"]
            self.rules = 0
            return found
        elif isinstance(step, UpgradeStep):
            return self._upgrade(step)
        elif isinstance(step, VoterStep):
            return self._voter(step)
        elif isinstance(step, MoveReplicaStep):
            found = (
                [] if self.node[str(target)] == SOUND or self.fault.get(str(target)) == "slow-disk" else ["no broker"]
            )
            return found + ([] if 1 <= step.directory <= self.log_dirs > 1 else ["no such directory"])
        elif kind == "rolling":
            whole = self.in_ == set(self.node) and self._calm
            return [] if whole else ["not everything is whole"]
        elif target is not None and kind != "unregister":
            return self._node(step, str(target))
        elif kind == "unregister":
            self.fenced.discard(str(target))
            return [] if self.node[str(target)] == DOWN else ["it may run"]
        return []

    def _upgrade(self, step: UpgradeStep) -> list[str]:
        """Controllers before brokers, never to the release that runs already, and only between whole states."""
        found = [] if self.in_ == set(self.node) and self._calm else ["not everything is whole"]
        names = list(self.node) if step.target is None else [str(step.target)]
        if all(self.releases[name] == step.to for name in names):
            found.append(f"it runs {step.to} already")
        self.releases |= dict.fromkeys(names, step.to)
        newest = max(map(Version, self.releases.values()))
        if Version(self.releases["controllers"]) < newest:
            found.append("a broker is newer than the controllers")
        levels, formed = levels_of(step.to), levels_of(self.formed_on)
        assert levels is not None
        assert formed is not None
        for feature, known in formed.items():
            level = self.features.get(feature, known[-1])
            if level and level not in levels.get(feature, ()):
                found.append(f"{step.to} does not know {feature} = {level}")
        return found

    def _voter(self, step: VoterStep) -> list[str]:
        """Only in a dynamic quorum, optional, and not while a controller is out."""
        found = [] if self.controller is None and step.optional else ["a controller is out"]
        return found + ([] if step.target.controller in self.controllers else ["no such controller"])

    def _node(self, step: StepSpec, target: str) -> list[str]:
        kind = step.step
        if Role(target).kind in ("controller", "step"):
            return self._controller(step)
        state = self.node[target]
        if kind in NEEDS_A_RUNNING_NODE:
            found = [] if state == SOUND else [f"it is {state}"]
            if kind in ("stop", "restart") and not (target in self.in_ and self._calm):
                found.append("a controlled shutdown may not end")
            if kind in LOSES_POWER and target in self.written_back:
                found.append("a freeze wrote back what the power loss should take")
            self._harm(kind, target)
            return found
        wanted = {"start": DOWN, "resume": PAUSED, "mend-disk": SICK}[kind]
        found = [] if state == wanted else [f"it is {state}, not {wanted}"]
        if kind == "start" and self.controller is not None:
            found.append("no controller to start with")
        fault = self.fault.get(target)
        full = UNSURE if self.log_dirs == 1 else DOWN
        after_mend = {"fill-disk": full, "slow-disk": SOUND}.get(fault or "", DOWN)
        self.node[target] = after_mend if kind == "mend-disk" else SOUND
        if kind == "start":
            self.written_back.discard(target)
            self.fenced.discard(target)
            if isinstance(step.trigger, BrokerTrigger):
                self.returns.add(target)
        return found

    def _harm(self, kind: str, target: str) -> None:
        self.fault[target] = kind
        if kind == "slow-disk":
            self.written_back.add(target)
        if kind == "restart":
            self.written_back.discard(target)
            self.in_.discard(target)
            self.returns.add(target)
            return
        self.node[target] = {"pause": PAUSED}.get(kind, DOWN if kind in TAKES_DOWN else SICK)
        if kind in TAKES_DOWN and target in self.in_:
            self.fenced.add(target)
        if kind not in ("pause", "slow-disk"):
            self.in_.discard(target)
            self.returns.discard(target)

    def _controller(self, step: StepSpec) -> list[str]:
        if step.step in ("start", "resume"):
            found = [] if self.controller == {"start": DOWN, "resume": PAUSED}[step.step] else ["not so"]
            self.controller = None
            return found
        found = ["a controller is out already"] if self.controller else []
        self.controller = PAUSED if step.step == "pause" else DOWN
        return found
