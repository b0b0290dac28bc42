"""What is said over a cluster's control socket: one request and one reply a connection, each a line of JSON."""

from __future__ import annotations

import msgspec

from ebbtide.errors import EbbtideError, ExitCode, HarnessError, UsageError
from ebbtide.privileges import Privileges
from ebbtide.record.steps import StepEntry
from ebbtide.scenario.model import StepSpec, TopicSpec


class ClusterStatus(msgspec.Struct, frozen=True, kw_only=True):
    """A cluster that is up. `record`: its run's folder; `nodes`: name to state; `partitions`: a line each, and so
    `broken`, the faults of connections and volumes that last.

    `namespace` is the clients' network namespace as the owner sees it, whose powers are `powers`. `scenario` is
    empty for a plain cluster. `kept`: its run is over, and the cluster was left up.
    """

    name: str
    run_id: str
    record: str
    scenario: str
    kafka: str
    runtime: str
    power_loss_method: str
    powers: Privileges
    bootstrap: tuple[str, ...]
    namespace: str
    nodes: dict[str, str]
    partitions: tuple[str, ...]
    broken: tuple[str, ...] = ()
    steps: int
    kept: bool = False


class AskStatus(msgspec.Struct, frozen=True, kw_only=True, tag="status"):
    """How the cluster is."""


class Fire(msgspec.Struct, frozen=True, kw_only=True, tag="fire"):
    """Carry a step out; answered once it has been, or has not."""

    step: StepSpec


class CreateTopic(msgspec.Struct, frozen=True, kw_only=True, tag="create-topic"):
    """Create a topic; answered once every partition has a leader and its whole ISR."""

    topic: str
    spec: TopicSpec


class Down(msgspec.Struct, frozen=True, kw_only=True, tag="down"):
    """End the cluster. Not answered: the connection closes when nothing is left of it."""


Request = AskStatus | Fire | CreateTopic | Down


class Refusal(msgspec.Struct, frozen=True, kw_only=True):
    """An `EbbtideError` on its way to another process."""

    usage: bool
    what: str
    where: str | None = None
    got: str | None = None
    allowed: str | None = None
    next: str | None = None

    @classmethod
    def of(cls, error: EbbtideError) -> Refusal:
        """`error`, with several problems in its first line where it has them."""
        heading, _, rest = error.render().partition("\n")
        usage = error.exit_code is ExitCode.USAGE
        if getattr(error, "problems", None):
            return cls(usage=usage, what=f"{heading}\n{rest}")
        return cls(
            usage=usage, what=error.what, where=error.where, got=error.got, allowed=error.allowed, next=error.next
        )

    def error(self) -> EbbtideError:
        """To be raised here."""
        kind = UsageError if self.usage else HarnessError
        return kind(self.what, where=self.where, got=self.got, allowed=self.allowed, next=self.next)


class Reply(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """`refusal` or what was asked for; `status` is there unless it was refused."""

    status: ClusterStatus | None = None
    step: StepEntry | None = None
    refusal: Refusal | None = None
