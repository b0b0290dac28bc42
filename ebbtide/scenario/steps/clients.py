"""Steps on the process of a producer or consumer: it is killed, shut down, or started again."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from functools import partial
from types import MappingProxyType

from ebbtide.errors import UsageError
from ebbtide.scenario.steps.step import BaseStep, Kind, StepSpec
from ebbtide.scenario.words import ParsedText
from ebbtide.suggestions import bracketed_suggestion

_CLIENT = re.compile(r"(producer|consumer)\(([0-9]{1,9})\)")

_client = partial(
    Kind,
    family="client",
    first="client",
    undone="clients end with the harness",
)


class ClientName(ParsedText):
    """A producer or consumer of the scenario, by its id; `process` is the name of its process."""

    __slots__ = ("id", "kind", "process")
    shown = "a client, e.g. 'consumer(1)' or 'producer(1)'"

    def __init__(self, text: str) -> None:
        """Raises `UsageError` for any other text."""
        super().__init__(text)
        match = _CLIENT.fullmatch(text.strip())
        if match is None:
            raise UsageError("not a client", got=repr(text), allowed="producer(ID) or consumer(ID)")
        self.kind, self.id = match[1], int(match[2])
        self.process = f"{self.kind}-{self.id}"


class ClientStep(BaseStep, frozen=True, kw_only=True):
    """A step on a client's process."""

    shown = MappingProxyType({"client": ClientName.shown})
    client: ClientName

    def mistakes(self, clients: Sequence[str], earlier: Iterable[StepSpec], where: str) -> Iterator[UsageError]:
        """Report a client that the scenario does not have, and one that is down or up already."""
        at, got = f"{where}.client", repr(self.client)
        if str(self.client) not in clients:
            near = bracketed_suggestion(str(self.client), clients)
            yield UsageError("unknown client", where=at, got=got, allowed=(", ".join(clients) or "none") + near)
            return
        is_down = False
        for step in earlier:
            if isinstance(step, ClientStep) and step.client == self.client:
                is_down = not isinstance(step, StartClientStep)
        if is_down and not isinstance(self, StartClientStep):
            yield UsageError(f"a {self.step} of a client that is down", where=at, got=got, allowed="start-client first")
        if not is_down and isinstance(self, StartClientStep):
            what = "nothing to start: no earlier step left this client down"
            yield UsageError(what, where=at, got=got, allowed="a client after kill-client or stop-client")


class KillClientStep(ClientStep, frozen=True, kw_only=True, tag="kill-client"):
    """Ends a client's process at once."""

    kind = _client(
        does="sends SIGKILL to a producer or consumer, which stays down",
        note="its group waits for the session timeout; what it had not journalled has no row",
        proof="the kernel says that SIGKILL ended the process (waitpid)",
        counted=("clients-killed", "clients killed"),
    )


class StopClientStep(ClientStep, frozen=True, kw_only=True, tag="stop-client"):
    """Shuts a client down in order."""

    kind = _client(
        does="shuts down a producer or consumer, which stays down",
        note="a producer waits up to 5 s for answers; a member commits what it has handled, and leaves its group",
        proof="the process ended by itself with exit code 0",
        counted=("clients-stopped", "clients shut down"),
    )


class StartClientStep(ClientStep, frozen=True, kw_only=True, tag="start-client"):
    """Starts a client that a step took down."""

    kind = _client(
        does="starts a producer or consumer that a step took down",
        note="a producer sends what is left of its `count`; a member goes on from its group's offsets, a consumer "
        "without a group begins again",
        proof="the process was down, and the new one says that it works",
        counted=("clients-started", "clients started again"),
    )


ClientsStep = KillClientStep | StopClientStep | StartClientStep
