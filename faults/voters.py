"""Changes of the voters of a dynamic quorum (KIP-853): the request of a step, and the record that proves it."""

from __future__ import annotations

from cluster.kafka_api.voter_requests import AddVoter, RemoveVoter
from cluster.runtime.base import Runtime
from cluster.runtime.properties import CONTROLLER_PORT
from ebbtide.errors import StepImpossible
from ebbtide.kraft.voters import VoterSet
from ebbtide.logs.checkpoint_file import directory_id_in
from ebbtide.scenario.steps.admin import AddVoterStep, VoterStep
from faults.injector import View


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
