"""Moves of replicas between the log directories of their broker, proven by the broker's own answer.

A move leaves no record in the metadata log before it has ended. DescribeLogDirs shows it: the replica was elsewhere,
and is now in the directory, or a future replica is.

Changes of the voters of a dynamic quorum (KIP-853): the request of a step, and the record that proves it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path

from cluster.kafka_api.admin_requests import AdminAnswer, AdminRequest
from cluster.kafka_api.log_dirs import MoveReplica, ReplicaMove
from cluster.kafka_api.metadata_log import AddVoter, RemoveVoter
from cluster.runtime.cluster import Runtime
from cluster.runtime.properties import CONTROLLER_PORT
from ebbtide.errors import HarnessError, StepImpossible
from ebbtide.kraft.commits import VoterSet
from ebbtide.logs.checkpoint_file import directory_id_in
from ebbtide.scenario.steps.admin import AddVoterStep, MoveReplicaStep, VoterStep
from faults.base import REFUSED, Effect, proven_effect, unproven_effect
from faults.injector import Injector, Plan, View

_ACCEPTED = "NONE"


def plan_move(step: MoveReplicaStep, injector: Injector, ask: Callable[[AdminRequest, float], AdminAnswer]) -> Plan:
    """Return the plan of a step; `ask` sends its request. Raises `RoleUnresolved`."""
    broker = injector.view.resolve_one(step.target)
    data_dirs = injector.runtime.data_dirs(broker)
    words = f"move {step.partition} on broker {broker} to log directory {step.directory}"

    def act() -> Effect:
        if step.directory > len(data_dirs):
            return unproven_effect(f"broker {broker} has {len(data_dirs)} log directories", request=words)
        topic, number = step.partition.at
        path = str(data_dirs[step.directory - 1])
        request = MoveReplica(topic=topic, partition=number, broker=broker, path=path)
        try:
            answer = ask(request, step.deadline_s)
        except HarnessError as error:
            return unproven_effect(f"Kafka did not answer: {error.render()}", request=words)
        return effect_of_move(answer, data_dirs, step, words)

    return Plan(nodes=(broker,), description=words, act=act)


def effect_of_move(answer: AdminAnswer, data_dirs: Sequence[Path], step: MoveReplicaStep, words: str) -> Effect:
    """Return the effect that an answer proves; log directories are numbers in its figures."""
    numbers: dict[str | None, int] = {str(path): at for at, path in enumerate(data_dirs, 1)}
    moved = answer.replica_move or ReplicaMove()
    was = numbers.get(moved.before.current)
    figures: dict[str, object] = {
        "request": words,
        "answer": answer.error,
        "directory_before": was,
        "directory": numbers.get(moved.after.current),
        "future": numbers.get(moved.after.future),
    }
    if step.expect_error is not None:
        if answer.error != step.expect_error:
            why = f"Kafka answered {answer.error} instead of the expected {step.expect_error}"
            return unproven_effect(why, **figures)
        return proven_effect(**figures)
    if answer.error != _ACCEPTED:
        return unproven_effect(f"{REFUSED} {answer.error}", **figures)
    if was is None:
        return unproven_effect("the broker has no replica of the partition in a directory that is online", **figures)
    if was == step.directory:
        return unproven_effect(f"the replica was in log directory {was} already", **figures)
    if numbers.get(moved.before.future) == step.directory:
        return unproven_effect("the replica was on its way to the directory already", **figures)
    if step.directory not in (figures["directory"], figures["future"]):
        return unproven_effect("Kafka accepted, but no future replica is in the directory", **figures)
    return proven_effect(**figures)


def voter_request(step: VoterStep, runtime: Runtime, view: View) -> tuple[AddVoter | RemoveVoter, tuple[int, ...]]:
    """Return the request of a step that changes the voters, and the controller that it concerns.

    A voter is removed with the directory id that the metadata log has of it: its disk may be another by now. Raises
    `RoleUnresolved`, and `StepImpossible` if no directory id is known.
    """
    node = view.resolve_one(step.target)
    name, on_disk = runtime.nodes[node].name, directory_id_in(runtime.data_dir(node))
    if isinstance(step, AddVoterStep):
        if on_disk is None:
            raise StepImpossible(f"the disk of {name} has no directory id", next="give it a disk and start it first")
        host = runtime.nodes[node].address
        return AddVoter(voter=node, directory=on_disk, host=host, port=CONTROLLER_PORT), (node,)
    sets = view.image.voter_sets
    directory = sets[-1].voters.get(node, on_disk) if sets else on_disk
    if directory is None:
        raise StepImpossible(f"{name} is no voter, and its disk has no directory id", next="name a voter as the target")
    return RemoveVoter(voter=node, directory=directory), (node,)


def voters_record(request: AddVoter | RemoveVoter, voters: VoterSet | None, since: int) -> dict[str, object] | None:
    """Return the committed voters that prove the request, from a record at offset `since` or later; None: not yet."""
    if voters is None or voters.metadata_offset < since:
        return None
    directory = voters.voters.get(request.voter)
    is_done = directory == request.directory if isinstance(request, AddVoter) else directory is None
    if not is_done:
        return None
    return {
        "metadata_offset": voters.metadata_offset,
        "voters": {str(node): of for node, of in sorted(voters.voters.items())},
    }
