"""Steps that change the voters of a dynamic quorum are proven by the committed record of voters alone."""

from __future__ import annotations

from pathlib import Path
from typing import cast

import evidence_builders as build
import pytest

from cluster.kafka_api.admin_requests import AdminAnswer, AdminRequest
from cluster.kafka_api.metadata_log import AddVoter, RemoveVoter
from cluster.runtime.base import NodeInfo
from cluster.runtime.cluster import Runtime
from ebbtide.errors import HarnessError, StepImpossible
from ebbtide.kraft.image import MetadataImage
from ebbtide.logs.segments import METADATA_FOLDER
from ebbtide.scenario.steps.admin import AddVoterStep, RemoveVoterStep
from ebbtide.scenario.words import Role
from faults import admin
from faults.base import Effect
from faults.replica_moves import voter_request
from harness.runner.view import ClusterView

PAIR = {100: "D100", 101: "D101"}
THREE = {**PAIR, 102: "D102"}
TARGET = Role("controller(102)")


class Quorum:
    """Controllers 100 to 102; a request writes `then` on the disks of `reached`, and is answered `error`."""

    def __init__(self, folder: Path, voters: dict[int, str]) -> None:
        self._folder = folder
        self.nodes = {
            id: NodeInfo(id=id, role="controller", name=f"controller-{id}", address=f"10.99.0.{id}") for id in THREE
        }
        self.error: str | None = "NONE"
        self.reached: tuple[int, ...] = (100, 101, 102)
        self.then: dict[int, str] | None = None
        self._batches = [build.voters(0, voters)]
        for node in THREE:
            self.give_disk(node, f"D{node}")
        self._write(*THREE)
        logs = {node: self.data_dir(node) / METADATA_FOLDER for node in THREE}
        self.view = ClusterView(logs, {}, (1,), has_dynamic_quorum=True)
        self.view.poll()

    def data_dir(self, node: int) -> Path:
        return self._folder / str(node)

    def give_disk(self, node: int, name: str) -> None:
        self.data_dir(node).mkdir(exist_ok=True)
        (self.data_dir(node) / "meta.properties").write_text(f"directory.id={name.ljust(22, 'A')}\n")

    def _write(self, *nodes: int) -> None:
        for node in nodes:
            build.write_log(self.data_dir(node) / METADATA_FOLDER, *self._batches)

    def ask(self, request: AdminRequest, timeout_s: float) -> AdminAnswer:
        if self.then is not None:
            self._batches.append(build.voters(1, self.then))
            self._write(*self.reached)
        if self.error is None:
            raise HarnessError("no broker answered", got="timed out")
        return AdminAnswer(broker="broker-1", error=self.error)

    def look(self) -> MetadataImage:
        self.view.poll()
        return self.view.image

    def request(self, step: AddVoterStep | RemoveVoterStep) -> AddVoter | RemoveVoter:
        request, nodes = voter_request(step, cast(Runtime, self), self.view)
        assert nodes == (102,)
        return request

    def carry_out(self, step: AddVoterStep | RemoveVoterStep, expect_error: str | None = None) -> Effect:
        return admin.carry_out(
            self.request(step),
            ask=self.ask,
            look=self.look,
            expect_error=expect_error,
            timeout_s=0.05,
            voters=lambda: self.view.committed_voters,
        )


@pytest.fixture(autouse=True)
def short_waits(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(admin, "_UNANSWERED_WAIT_S", 0.05)
    monkeypatch.setattr(admin, "_RECORD_WAIT_MIN_S", 0.05)


ADD, REMOVE = AddVoterStep(target=TARGET), RemoveVoterStep(target=TARGET)


@pytest.mark.parametrize(("step", "before", "then"), [(ADD, PAIR, THREE), (REMOVE, THREE, PAIR)])
@pytest.mark.parametrize("error", ["NONE", None])
def test_a_record_on_a_majority_of_the_new_voters_is_the_proof(
    tmp_path: Path,
    step: AddVoterStep | RemoveVoterStep,
    before: dict[int, str],
    then: dict[int, str],
    error: str | None,
) -> None:
    quorum = Quorum(tmp_path, before)
    quorum.then, quorum.reached, quorum.error = then, (100, 101), error
    effect = quorum.carry_out(step)
    assert effect.effect_ns is not None, effect.why
    assert sorted(effect.proof["record"]["voters"]) == [str(node) for node in then]
    assert effect.proof["record"]["metadata_offset"] == 1


@pytest.mark.parametrize(
    ("step", "before", "then", "reached"),
    [
        (ADD, PAIR, THREE, (100,)),
        (ADD, PAIR, None, ()),
        (ADD, PAIR, {**PAIR, 102: "other"}, (100, 101, 102)),
        (REMOVE, THREE, PAIR, (100, 102)),
        (REMOVE, THREE, {**PAIR, 102: "other"}, (100, 101, 102)),
        (REMOVE, THREE, None, ()),
        (REMOVE, PAIR, None, ()),  # no voter at first, and no newer record says so
    ],
)
def test_kafkas_yes_without_such_a_record_proves_nothing(
    tmp_path: Path,
    step: AddVoterStep | RemoveVoterStep,
    before: dict[int, str],
    then: dict[int, str] | None,
    reached: tuple[int, ...],
) -> None:
    quorum = Quorum(tmp_path, before)
    quorum.then, quorum.reached = then, reached
    effect = quorum.carry_out(step)
    assert effect.effect_ns is None
    assert "Kafka accepted, but" in str(effect.why)


def test_a_refusal_is_the_proof_where_it_is_expected(tmp_path: Path) -> None:
    quorum = Quorum(tmp_path, THREE)
    quorum.error = "DUPLICATE_VOTER"
    assert quorum.carry_out(ADD, "DUPLICATE_VOTER").effect_ns is not None
    assert quorum.carry_out(ADD).effect_ns is None


def test_a_voter_is_added_with_the_disk_that_it_has_and_removed_with_the_disk_that_votes(tmp_path: Path) -> None:
    quorum = Quorum(tmp_path, THREE)
    quorum.give_disk(102, "new")
    added, removed = quorum.request(ADD), quorum.request(REMOVE)
    assert added == AddVoter(voter=102, directory="new".ljust(22, "A"), host="10.99.0.102", port=9093)
    assert removed == RemoveVoter(voter=102, directory="D102".ljust(22, "A"))


@pytest.mark.parametrize("step", [ADD, REMOVE])
def test_a_controller_without_a_known_disk_cannot_be_named_to_kafka(
    tmp_path: Path, step: AddVoterStep | RemoveVoterStep
) -> None:
    quorum = Quorum(tmp_path, PAIR)
    (quorum.data_dir(102) / "meta.properties").unlink()
    with pytest.raises(StepImpossible, match="controller-102"):
        quorum.request(step)
