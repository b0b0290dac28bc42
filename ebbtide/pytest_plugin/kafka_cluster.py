"""The `kafka_cluster` fixture.

It is plain Kafka that tests may use and break, without a verdict.
"""

from __future__ import annotations

import contextlib
import json
import shlex
import subprocess
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ebbtide.command import COMMAND
from ebbtide.pytest_plugin.steps import did_you_mean_step, kind_of, step_of, topic_of

if TYPE_CHECKING:
    from ebbtide.daemon.messages import ClusterStatus
    from ebbtide.errors import UsageError
    from ebbtide.handled import HandledRecords
    from ebbtide.record.steps import StepEntry
    from ebbtide.scenario.steps.step import StepSpec


class Unproven(AssertionError):
    """A step without proof that it took effect: the test is inconclusive.

    A step that never fired has no proof either.
    """


def _unproven(entry: StepEntry, what: str) -> Unproven:
    from ebbtide.scenario.steps.table import help_of_kind

    return Unproven(
        f"inconclusive: step {entry.index} ({entry.step}) {what}: {entry.why}\n  next:    {help_of_kind(entry.step)}"
    )


def _not_a_list(command: str) -> UsageError:
    from ebbtide.errors import UsageError

    try:
        words = shlex.split(command)
    except ValueError:  # a quote without its end
        words = command.split()
    allowed = f"a list of words: {json.dumps(words)}"
    return UsageError("run takes the words of a command", got=repr(command), allowed=allowed)


class NoSuchStep(AttributeError):
    """A method that is no kind of step: the test itself is wrong."""


class Breakable:
    """A running cluster, with a method for every kind of step.

    `power_loss(leader("t-0"))` fires the step `power-loss` with that target. Keyword arguments are the keys of a
    scenario file: `cluster.set_config(resource="topic:t", config="min.insync.replicas", value="1")`. One key is the
    trigger, which the call awaits first. Each method returns the step's line of steps.jsonl, with the proof that it
    took effect.
    """

    def __init__(self, status: ClusterStatus, command: Sequence[str] = COMMAND) -> None:
        self._status = status
        self._command = tuple(command)

    def __getattr__(self, method: str) -> Callable[..., StepEntry]:
        __tracebackhide__ = True
        kind = None if method.startswith("_") else kind_of(method)
        if kind is None:
            raise NoSuchStep(f"{type(self).__name__} has no {method!r}.{did_you_mean_step(method)}")

        def fire(*values: Any, **keys: Any) -> StepEntry:
            __tracebackhide__ = True
            return self.fire(kind, *values, **keys)

        return fire

    def fire(self, kind: str, *values: Any, **keys: Any) -> StepEntry:
        """Run a step of this kind, and return its line of steps.jsonl.

        Raises `EbbtideError` if the step is invalid or cannot be injected. Raises `Unproven` if nothing proves that it
        took effect, unless the step is optional.
        """
        # A failure is shown where the test asked for the step.
        __tracebackhide__ = True
        return self._fire(step_of(kind, values, keys))

    def wait(self, deadline_s: float | None = None, **trigger: Any) -> StepEntry:
        """Wait for a trigger of a scenario file, such as `wait(acked=1000)`.

        Another example: `wait(isr={"partition": "t-0", "size": 1})`. Without `deadline_s`, it waits for 30 s at most.
        """
        __tracebackhide__ = True
        if not trigger:
            from ebbtide.errors import UsageError
            from ebbtide.scenario.steps.table import help_of_kind

            # Who types wait(5) means a time.
            seconds = deadline_s if isinstance(deadline_s, int | float) else 2
            raise UsageError(
                "wait needs a trigger",
                got="nothing" if deadline_s is None else repr(deadline_s),
                allowed=f"wait(acked=1000), or wait(after='{seconds:g}s') for a time",
                next=help_of_kind("wait"),
            )
        return self.fire("wait", trigger=trigger, deadline_s=30.0 if deadline_s is None else deadline_s)

    @property
    def name(self) -> str:
        """The name of the cluster in `ebbtide cluster status`."""
        return self._status.name

    @property
    def kafka(self) -> str:
        """The Kafka release."""
        return self._status.kafka

    @property
    def bootstrap_servers(self) -> list[str]:
        """Return `host:port` of every broker in the clients' network namespace.

        `inside` and `run` work in this namespace.
        """
        return list(self._status.bootstrap)

    @property
    def published(self) -> list[str]:
        """Return `host:port` of every broker on this host: of a `chaos` that is marked with `publish=True`.

        Any client reaches the brokers there, and Ebbtide judges what producers send. Raises `UsageError` without it.
        """
        if not self._status.published:
            from ebbtide.errors import UsageError

            raise UsageError(
                "the test publishes no ports",
                allowed="published ports of chaos, for a test with @pytest.mark.chaos(publish=True)",
            )
        return list(self._status.published)

    @property
    def published_ca(self) -> str:
        """Return the file with the CA that clients trust, of `chaos(publish="tls")`; empty without TLS."""
        return self._status.published_ca

    @property
    def record(self) -> Path:
        """The folder with the cluster's logs and steps."""
        return Path(self._status.record)

    def status(self) -> ClusterStatus:
        """Return the present state of nodes and partitions."""
        from ebbtide.daemon.control import status_of
        from ebbtide.errors import HarnessError

        status = status_of(self.name)
        if status is None:
            raise HarnessError(f"the cluster {self.name} is not running", next="ebbtide clean")
        return status

    @contextlib.contextmanager
    def inside(self) -> Iterator[None]:
        """Move this thread into the clients' network namespace during the block.

        Connections that are opened in the block reach the brokers. Threads that are started in the block, such as a
        Kafka client's, stay there. This needs root; every user can call `run`.
        """
        from ebbtide.namespaces import enter_namespace

        with enter_namespace(Path(self._status.namespace)):
            yield

    def run(self, command: Sequence[str], **how: Any) -> subprocess.CompletedProcess[str]:
        """Run a command, a list of words, in the clients' network namespace.

        Its environment has EBBTIDE_BOOTSTRAP. Calls `ebbtide cluster exec`. `how` goes to
        `subprocess.run`; the output is captured as text. Raises `UsageError` for a command in one text.
        """
        __tracebackhide__ = True
        if isinstance(command, str):
            raise _not_a_list(command)
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

    def _new_topic(
        self, topic: str, *, partitions: int = 1, replication_factor: int = 3, min_isr: int = 2, **config: str
    ) -> str:
        """Create a topic and return its name, once every partition has its whole ISR.

        Every partition also has a leader then. `config` is the topic's configuration, with underscores
        instead of dots. Raises `Problems` for settings that a topic cannot have, and `HarnessError`.
        """
        from ebbtide.daemon.control import ask
        from ebbtide.daemon.messages import CreateTopic

        __tracebackhide__ = True
        settings = {"partitions": partitions, "replication_factor": replication_factor, "min_isr": min_isr}
        ask(self.name, CreateTopic(topic=topic, spec=topic_of(topic, settings, config)))
        return topic


class KafkaCluster(Breakable):
    """A plain cluster that all tests of a session with the same release share."""

    create_topic = Breakable._new_topic


class Chaos(Breakable):
    """One run that a test drives.

    After the test Ebbtide heals every fault, waits until the cluster settles, reads all partitions and judges the
    record.
    """

    def __init__(self, status: ClusterStatus, topics: tuple[str, ...], command: Sequence[str] = COMMAND) -> None:
        super().__init__(status, command)
        self.topics = topics
        self._handled: HandledRecords | None = None

    def handled(self, record: object, group: str | None = None) -> None:
        """Note that the test has handled a record, as its Kafka client returned it, or as topic, partition and offset.

        Call it when you are done with the record. `group` is needed where several groups commit on its partition. A
        program that the test starts calls `ebbtide.handled.handled`. Raises `UsageError` without published ports.
        """
        from ebbtide.handled import HandledRecords

        __tracebackhide__ = True
        if self._handled is None:
            _ = self.published
            self._handled = HandledRecords(self.record, self._status.clock_base_ns)
        self._handled.note(record, group)

    @contextlib.contextmanager
    def environment(self) -> Iterator[None]:
        """Tell the programs that a test starts in the block how to say which records they have handled."""
        import pytest

        from ebbtide.handled import environment_of

        told = environment_of(self.record, self._status.clock_base_ns) if self._status.published else {}
        with pytest.MonkeyPatch.context() as environment:
            for name, value in told.items():
                environment.setenv(name, value)
            yield

    def create_topic(self, topic: str, **settings: Any) -> str:
        """Create a topic for the test's own clients, and return its name.

        A topic of Ebbtide's clients that a step deleted is made again by the step `create-topic`. To get its line of
        steps.jsonl, call `fire("create-topic", topic=...)`.
        """
        __tracebackhide__ = True
        if topic in self.topics:
            self.fire("create-topic", topic=topic, **settings)
            return topic
        return self._new_topic(topic, **settings)
