"""The cluster of a session: plain Kafka that a test may use and break; nothing on it is judged."""

from __future__ import annotations

import contextlib
import subprocess
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ebbtide.command import COMMAND
from ebbtide.pytest_plugin.steps import kind_of, nearest, step_of

if TYPE_CHECKING:
    from ebbtide.daemon.messages import ClusterStatus
    from ebbtide.record.steps import StepEntry
    from ebbtide.scenario.model import StepSpec


class Unproven(AssertionError):
    """A step never fired, or has no proof that it took effect: whatever follows proves nothing."""


def _unproven(entry: StepEntry, what: str) -> Unproven:
    return Unproven(
        f"inconclusive: step {entry.index} ({entry.step}) {what}: {entry.why}\n"
        f"  next:   ebbtide fault {entry.step} --help    (what it takes, and what proves it)"
    )


class Breakable:
    """A cluster that is up, by its name, with every kind of step as a method.

    `power_loss(leader("t-0"))` fires the step `power-loss` with that target; other keys are those of a scenario
    file: `cluster.set_config(resource="topic:t", config="min.insync.replicas", value="1")`. A trigger is one of
    them, and is awaited first. Each returns its line of steps.jsonl, with the proof that it took effect.
    """

    def __init__(self, status: ClusterStatus, command: Sequence[str] = COMMAND) -> None:
        self._status = status
        self._command = tuple(command)

    def __getattr__(self, method: str) -> Callable[..., StepEntry]:
        __tracebackhide__ = True
        kind = None if method.startswith("_") else kind_of(method)
        if kind is None:
            raise AttributeError(f"{type(self).__name__} has no {method!r}.{nearest(method)}")

        def fire(*values: Any, **keys: Any) -> StepEntry:
            __tracebackhide__ = True
            return self.fire(kind, *values, **keys)

        return fire

    def fire(self, kind: str, *values: Any, **keys: Any) -> StepEntry:
        """Carry out a step of this kind.

        Raises `EbbtideError` when it makes no sense or could not be injected, and `Unproven`, unless it is optional.
        """
        # A failure is shown where the test asked for the step.
        __tracebackhide__ = True
        return self._fire(step_of(kind, values, keys))

    def wait(self, deadline_s: float = 30.0, **trigger: Any) -> StepEntry:
        """Wait for a trigger of a scenario file: `wait(acked=1000)`, `wait(isr={"partition": "t-0", "size": 1})`."""
        __tracebackhide__ = True
        return self.fire("wait", trigger=trigger, deadline_s=deadline_s)

    @property
    def name(self) -> str:
        """What `ebbtide cluster status` calls it."""
        return self._status.name

    @property
    def kafka(self) -> str:
        """The release."""
        return self._status.kafka

    @property
    def bootstrap_servers(self) -> list[str]:
        """`host:port` of every broker, as seen from the clients' network namespace (`inside`, `run`)."""
        return list(self._status.bootstrap)

    @property
    def record(self) -> Path:
        """The folder with its logs and steps."""
        return Path(self._status.record)

    def status(self) -> ClusterStatus:
        """How its nodes and partitions are now."""
        from ebbtide.daemon.control import status_of
        from ebbtide.errors import HarnessError

        status = status_of(self.name)
        if status is None:
            raise HarnessError(f"{self.name} is gone", next="ebbtide clean")
        return status

    @contextlib.contextmanager
    def inside(self) -> Iterator[None]:
        """While inside, this thread is where the cluster's clients are: connections opened here reach the brokers.

        Threads that are started inside stay there, a Kafka client's among them. Takes root; any user can `run`.
        """
        from ebbtide.namespaces import enter_namespace

        with enter_namespace(Path(self._status.namespace)):
            yield

    def run(self, command: Sequence[str], **how: Any) -> subprocess.CompletedProcess[str]:
        """Run a command where the cluster's clients are, EBBTIDE_BOOTSTRAP in its environment.

        `how` goes to `subprocess.run`; output is captured as text. By `ebbtide cluster exec`.
        """
        words = [*self._command, "cluster", "exec", "--cluster", self.name, "--", *command]
        done: subprocess.CompletedProcess[str] = subprocess.run(words, **{"capture_output": True, "text": True, **how})
        return done

    def _fire(self, step: StepSpec) -> StepEntry:
        from ebbtide.scenario.steps.table import WIRE_KINDS

        __tracebackhide__ = True
        entry = self._ask(step)
        if step.optional:
            return entry
        if entry.fired_ns is None:
            raise _unproven(entry, "never fired")
        if entry.effect_ns is None and (entry.why is not None or step.step not in WIRE_KINDS):
            raise _unproven(entry, "has no proof that it took effect")
        return entry

    def _ask(self, step: StepSpec) -> StepEntry:
        from ebbtide.daemon.control import ask
        from ebbtide.daemon.messages import Fire

        __tracebackhide__ = True
        entry = ask(self.name, Fire(step=step)).step
        assert entry is not None
        return entry


class KafkaCluster(Breakable):
    """A plain cluster, shared by the tests of a session that use the same release."""

    def create_topic(
        self, name: str, *, partitions: int = 1, replication_factor: int = 3, min_isr: int = 2, **config: str
    ) -> str:
        """Create a topic; returns its name once every partition has a leader and its whole ISR.

        `config` has underscores for dots. Raises `HarnessError`.
        """
        from ebbtide.daemon.control import ask
        from ebbtide.daemon.messages import CreateTopic
        from ebbtide.scenario.model import TopicSpec

        __tracebackhide__ = True
        spec = TopicSpec(
            partitions=partitions,
            replication_factor=replication_factor,
            min_isr=min_isr,
            config={key.replace("_", "."): value for key, value in config.items()},
        )
        ask(self.name, CreateTopic(topic=name, spec=spec))
        return name
