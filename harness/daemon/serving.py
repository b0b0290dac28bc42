"""The owner of a cluster: keeps an eye on it and does what comes over the control socket, until it is told to end.

One thread does everything, so that a fault and a look at the cluster never meet. Ctrl-C and SIGTERM are the
caller's: they unwind through `serve`.
"""

from __future__ import annotations

import os
import selectors
import socket
from pathlib import Path

import msgspec

from cluster.host.namespaces import Namespace
from cluster.runtime.base import Runtime
from ebbtide.daemon.control import listening
from ebbtide.daemon.messages import AskStatus, ClusterStatus, CreateTopic, Down, Fire, Refusal, Reply, Request
from ebbtide.errors import EbbtideError, UsageError
from ebbtide.kraft.image import describe
from ebbtide.logs.segments import TopicPartition
from ebbtide.powers import held
from ebbtide.record.steps import StepEntry
from ebbtide.scenario.model import StepSpec
from ebbtide.scenario.plain import read_text
from ebbtide.scenario.steps.table import DISK_TROUBLES, NETWORK_FAULTS, WIRE_KINDS
from harness.daemon.steps import refuse_nonsense, refuse_pointless
from harness.daemon.topics import create_topic, refuse_topic
from harness.runner.display import Display
from harness.runner.session import Session

_LOOK_S = 0.1
_SPEAK_WITHIN_S = 2.0
"""How long a caller may take to say what it wants: meanwhile nobody looks at the cluster."""


class Owned(msgspec.Struct, frozen=True, kw_only=True):
    """A cluster that is up.

    `folder`: the record of its steps; `tapped`: every node has a proxy on the wire; `kept`: its run is over.
    """

    name: str
    run_id: str
    folder: Path
    kafka: str
    runtime: Runtime
    session: Session
    tapped: bool = False
    kept: bool = False


class Owner:
    """Serves one cluster; `display` hears of what is asked."""

    def __init__(self, owned: Owned, display: Display, tied_to: int | None = None) -> None:
        """`tied_to`: a file descriptor whose end of file is the end of whoever wants the cluster."""
        self._owned = owned
        self._display = display
        self._tied_to = tied_to
        self._enders: list[socket.socket] = []

    def serve(self) -> None:
        """Until somebody says `Down`, or whoever it is tied to is gone.

        Raises `HarnessError` when a run that is judged failed, and `UsageError` when the name is taken.
        """
        with listening(self._owned.name) as server, selectors.DefaultSelector() as selector:
            selector.register(server, selectors.EVENT_READ)
            if self._tied_to is not None:
                selector.register(self._tied_to, selectors.EVENT_READ)
            self._display.note(f"{self._owned.name} is up: {', '.join(self._owned.runtime.bootstrap_servers())}")
            while not self._enders:
                for key, _ in selector.select(_LOOK_S):
                    if key.fileobj is server:
                        self._take_call(server.accept()[0])
                    elif not os.read(key.fd, 64):
                        return
                self._owned.session.watch()

    def release(self) -> None:
        """Tell those who asked for the end that it has come."""
        for caller in self._enders:
            caller.close()

    def _take_call(self, caller: socket.socket) -> None:
        request: Request | None = None
        try:
            caller.settimeout(_SPEAK_WITHIN_S)
            with caller.makefile("rb") as words:
                request = msgspec.json.decode(words.readline(), type=Request, dec_hook=read_text)
            if isinstance(request, Down):
                self._display.note("told to end")
                self._enders.append(caller)
                return
            caller.sendall(msgspec.json.encode(self._reply(request)) + b"\n")
        except (OSError, msgspec.DecodeError) as error:
            self._display.note(f"a caller went wrong: {error}")
        finally:
            if not isinstance(request, Down):
                caller.close()

    def _reply(self, request: AskStatus | Fire | CreateTopic) -> Reply:
        session = self._owned.session
        step = None
        try:
            match request:
                case Fire():
                    session.watch()
                    self._refuse_untapped(request.step)
                    refuse_nonsense(session.scenario, request.step, session.view.image)
                    refuse_pointless(session, request.step)
                    step = session.fire(request.step)
                case CreateTopic():
                    session.watch()
                    refuse_topic(self._owned.runtime, session.view.image, request.topic, request.spec)
                    create_topic(self._owned.runtime, self._owned.folder, request.topic, request.spec)
                    session.watch()
        except EbbtideError as error:
            return Reply(refusal=Refusal.of(error))
        return Reply(status=self._status(), step=step)

    def _refuse_untapped(self, step: StepSpec) -> None:
        if step.step in WIRE_KINDS and not self._owned.tapped:
            raise UsageError(
                "this cluster has no proxies on the wire, which have to be there from its start",
                got=step.step,
                next="ebbtide cluster up --wire",
            )

    def _status(self) -> ClusterStatus:
        owned, view = self._owned, self._owned.session.view
        return ClusterStatus(
            name=owned.name,
            run_id=owned.run_id,
            record=str(owned.folder),
            scenario="" if not owned.session.scenario.topics else owned.session.scenario.name,
            kafka=owned.kafka,
            runtime=owned.runtime.name,
            power_loss_method=owned.runtime.power_loss_method,
            powers=held(),
            bootstrap=tuple(owned.runtime.bootstrap_servers()),
            namespace=str(Namespace(name=f"ebbtide-{owned.run_id}-clients").path),
            nodes=owned.session.node_states(),
            partitions=tuple(describe(row) for _, row in sorted(view.image.partitions.items(), key=_by_name)),
            broken=tuple(_told(one) for one in owned.session.entries if _lasts(one)),
            steps=len(owned.session.entries),
            kept=owned.kept,
        )


def _lasts(entry: StepEntry) -> bool:
    return entry.step in NETWORK_FAULTS | DISK_TROUBLES and entry.fired_ns is not None and entry.healed_ns is None


def _told(entry: StepEntry) -> str:
    return f"{entry.step} {entry.whom or ''}".rstrip() + (", without proof" if entry.effect_ns is None else "")


def _by_name(item: tuple[TopicPartition, object]) -> TopicPartition:
    return item[0]
