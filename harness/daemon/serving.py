"""Serves a cluster: polls it, and carries out the requests of its control socket.

One thread does everything, so that a fault and a poll of the cluster never run at once. Ctrl-C and SIGTERM raise
through `serve`, and the caller handles them.
"""

from __future__ import annotations

import os
import selectors
import socket
from collections.abc import Iterator
from pathlib import Path

import msgspec

from cluster.host.namespaces import Namespace
from cluster.runtime.cluster import Runtime
from ebbtide import run_clock
from ebbtide.daemon.control import open_control_socket
from ebbtide.daemon.messages import (
    AskStatus,
    ClusterStatus,
    CreateTopic,
    EndCluster,
    FaultInForce,
    Fire,
    NodeStatus,
    Refusal,
    Reply,
    Request,
)
from ebbtide.errors import EbbtideError, UsageError
from ebbtide.privileges import current_privileges
from ebbtide.scenario.plain_values import read_part
from ebbtide.scenario.steps.step import StepSpec
from ebbtide.scenario.steps.table import CLOCK_KINDS, DISK_TROUBLES, HEALED_BY, KINDS, NETWORK_FAULTS, WIRE_KINDS
from harness.daemon.steps import create_topic, refuse_invalid, refuse_topic, refuse_without_effect
from harness.runner.display import Display
from harness.runner.session import Session

_LOOK_S = 0.1
_SPEAK_WITHIN_S = 2.0
"""How long a caller can take to send its request; meanwhile nobody polls the cluster."""

_REQUEST_BYTES_MAX = 1 << 20


class OwnedCluster(msgspec.Struct, frozen=True, kw_only=True):
    """A cluster that is up, and the session that carries out its steps.

    `folder`: the record of its steps; `tapped`: every node has a wire proxy; `kept`: its run is over;
    `started_by`: the program that started it for itself; `up_again`: the command that starts such a cluster.
    """

    name: str
    run_id: str
    folder: Path
    kafka: str
    runtime: Runtime
    session: Session
    tapped: bool = False
    kept: bool = False
    started_by: str = ""
    up_again: str


class ClusterDaemon:
    """Serves one cluster over its control socket; `display` shows the requests."""

    def __init__(self, cluster: OwnedCluster, display: Display, tied_to: int | None = None) -> None:
        """`tied_to`: a file descriptor.

        Its end of file ends the daemon, because the process that wants it is gone.
        """
        self._cluster = cluster
        self._display = display
        self._tied_to = tied_to
        self._enders: list[socket.socket] = []

    def serve(self) -> None:
        """Serve until a caller sends `Down`, or the tied process is gone.

        Raises `HarnessError` if a run that is judged failed, and `UsageError` if the name is taken.
        """
        with open_control_socket(self._cluster.name) as server, selectors.DefaultSelector() as selector:
            selector.register(server, selectors.EVENT_READ)
            if self._tied_to is not None:
                selector.register(self._tied_to, selectors.EVENT_READ)
            self._display.note(f"{self._cluster.name} is up: {', '.join(self._cluster.runtime.bootstrap_servers())}")
            while not self._enders:
                for key, _ in selector.select(_LOOK_S):
                    if key.fileobj is server:
                        self._answer_call(server.accept()[0])
                    elif not os.read(key.fd, 64):
                        return
                self._cluster.session.watch()

    def release(self) -> None:
        """Tell the callers that asked for the end that it has come."""
        for caller in self._enders:
            caller.close()

    def _answer_call(self, caller: socket.socket) -> None:
        request: Request | None = None
        try:
            try:
                request = _read_request(caller)
                if request is None:  # it only asked whether somebody listens here
                    return
            except UsageError as error:
                self._display.note(error.in_one_line())
                reply = Reply(refusal=Refusal.of(error))
            else:
                if isinstance(request, EndCluster):
                    self._display.note("ending: a caller asked for it")
                    self._enders.append(caller)
                    return
                reply = self._reply(request)
            caller.sendall(msgspec.json.encode(reply) + b"\n")
        except (OSError, ValueError, RecursionError, msgspec.MsgspecError) as error:  # the cluster outlives them
            self._display.note(f"a request failed: {error}")
        finally:
            if not isinstance(request, EndCluster):
                caller.close()

    def _reply(self, request: AskStatus | Fire | CreateTopic) -> Reply:
        session = self._cluster.session
        step = None
        try:
            match request:
                case Fire():
                    session.watch()
                    self._refuse_unprepared(request.step)
                    refuse_invalid(session.scenario, request.step, session.view.image)
                    try:
                        refuse_without_effect(session, request.step)
                    except UsageError as error:
                        return Reply(refusal=Refusal.of(error, by_state=True))
                    step = session.fire(request.step)
                case CreateTopic():
                    session.watch()
                    owned, image = self._cluster, session.view.image
                    refuse_topic(owned.name, owned.runtime, image, request.topic, request.spec)
                    create_topic(self._cluster.runtime, self._cluster.folder, request.topic, request.spec)
                    session.watch()
        except EbbtideError as error:
            return Reply(refusal=Refusal.of(error))
        return Reply(status=self._status(), step=step)

    def _refuse_unprepared(self, step: StepSpec) -> None:
        cluster = self._cluster
        if step.step in WIRE_KINDS and not cluster.tapped:
            what, option = "this cluster has no wire proxies: they must be there from its start", "--wire"
        elif step.step in CLOCK_KINDS and not cluster.runtime.clocks.is_enabled:
            what, option = "no node has the agent that sets its clock: it must be there from the start", "--clocks"
        else:
            return
        again = f"ebbtide cluster down {cluster.name} && {cluster.up_again} {option}"
        raise UsageError(what, got=step.step, next=again)

    def _status(self) -> ClusterStatus:
        cluster, view = self._cluster, self._cluster.session.view
        published = cluster.runtime.published
        return ClusterStatus(
            name=cluster.name,
            run_id=cluster.run_id,
            record=str(cluster.folder),
            scenario="" if not cluster.session.scenario.topics else cluster.session.scenario.name,
            kafka=cluster.kafka,
            runtime=cluster.runtime.name,
            power_loss_method=cluster.runtime.power_loss_method,
            powers=current_privileges(),
            bootstrap=tuple(cluster.runtime.bootstrap_servers()),
            namespace=str(Namespace(name=f"ebbtide-{cluster.run_id}-clients").path),
            nodes=_nodes(cluster),
            partitions=tuple(row for _, row in sorted(view.image.partitions.items(), key=lambda item: item[0])),
            broken=tuple(_faults_in_force(cluster)),
            repairs=tuple(_repairs(cluster)),
            steps=len(cluster.session.entries),
            kept=cluster.kept,
            published=() if published is None else published.addresses,
            published_ca="" if published is None else str(published.ca or ""),
            controllers=tuple(cluster.runtime.controller_servers()),
            clock_base_ns=run_clock.base_ns(),
            started_by=cluster.started_by,
        )


def _read_request(caller: socket.socket) -> Request | None:
    """Return the caller's request; None if it leaves without one.

    Raises `UsageError` if nobody can read it, and `OSError` if the caller asks nothing in time.
    """
    caller.settimeout(_SPEAK_WITHIN_S)
    with caller.makefile("rb") as words:
        line = words.readline(_REQUEST_BYTES_MAX)
    if not line:
        return None
    try:
        request: Request = msgspec.json.decode(line, type=Request, dec_hook=read_part)
    except (ValueError, RecursionError, msgspec.MsgspecError) as error:
        raise UsageError("the daemon cannot read this request", got=str(error)) from None
    return request


def _nodes(cluster: OwnedCluster) -> dict[str, NodeStatus]:
    states = cluster.session.node_states()
    return {
        node.name: NodeStatus(
            id=node.id, role=node.role, state=states[node.name].state, registration=states[node.name].registration
        )
        for node in cluster.runtime.nodes.values()
    }


def _faults_in_force(cluster: OwnedCluster) -> list[FaultInForce]:
    """Return the newest step of each volume or clock that is wrong now, and the steps of all cuts, limits and rules."""
    entries = [one for one in cluster.session.entries if one.fired_ns is not None and one.healed_ns is None]
    of_nodes = DISK_TROUBLES | CLOCK_KINDS
    troubled = {(fault.kind, fault.node) for fault in cluster.session.in_force if fault.kind in of_nodes}
    names = {node.id: node.name for node in cluster.runtime.nodes.values()}
    found: list[FaultInForce] = []
    for one in reversed(entries):
        nodes, whom = one.nodes, one.whom or ""
        if one.step in of_nodes:
            nodes = tuple(node for node in one.nodes if (one.step, node) in troubled)
            troubled -= {(one.step, node) for node in nodes}
            whom = whom if nodes == one.nodes else ", ".join(names[node] for node in nodes)
        if one.step in NETWORK_FAULTS | WIRE_KINDS or (one.step in of_nodes and nodes):
            found.append(FaultInForce(step=one.step, whom=whom, nodes=nodes, proven=one.effect_ns is not None))
    return found[::-1]


def _repairs(cluster: OwnedCluster) -> Iterator[str]:
    """Yield the steps that end what is broken, each once, in an order in which all of them work."""
    in_force = {(HEALED_BY[fault.kind], fault.node) for fault in cluster.session.in_force}
    for healer in ("release", "heal", "resume", "mend-disk", "start", "reset-clock"):
        nodes = sorted(node for found, node in in_force if found == healer)
        if nodes and KINDS[healer].nothing_to_end is not None:
            yield healer
            continue
        for node in nodes:
            yield f"{healer} '{cluster.runtime.nodes[node].role}({node})'"
