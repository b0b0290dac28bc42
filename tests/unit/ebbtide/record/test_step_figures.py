"""What a step asked for and what its proof says, as structs; what cannot be read says why and is missing."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from ebbtide.record.files import RecordFolder
from ebbtide.record.steps import Asked, CutSides, StepEntry, read_steps, split_composed_steps, write_steps
from ebbtide.scenario.steps.admin import CreateTopicStep, DeleteRecordsStep
from ebbtide.scenario.steps.disk import DirectoryStep
from ebbtide.scenario.steps.network import LimitBandwidthStep, PartitionStep
from ebbtide.scenario.steps.step import Link, LinkProof, MeasuredLog, RequestProof, StepProof
from ebbtide.scenario.steps.table import STEP_TYPES

RUNS = Path(__file__).parents[3] / "data" / "runs"


def entry(step: str, parameters: dict[str, Any] | None = None, **proof: Any) -> StepEntry:
    return StepEntry(index=0, step=step, nodes=(1, 2), proof=proof, parameters=parameters or {})


@pytest.mark.parametrize("record", sorted(RUNS.iterdir()), ids=lambda path: path.name)
def test_every_proof_of_a_real_record_is_read(record: Path) -> None:
    steps = split_composed_steps(read_steps(RecordFolder(record)) or [])
    assert steps
    assert {step.index: step.figures(STEP_TYPES[step.step].Proof).unread for step in steps} == {
        step.index: {} for step in steps
    }


def test_an_arrow_is_a_link_between_two_nodes_also_where_it_is_the_name_of_a_transfer() -> None:
    cut = entry("partition", cuts=["1>2", "0>1"]).figures(PartitionStep.Proof).links
    limit = entry("limit-bandwidth", transfers={"2>1": {"took_ms": 3}}).figures(LimitBandwidthStep.Proof).links
    assert cut is not None
    assert limit is not None
    assert (cut.pairs, limit.pairs) == ({Link(1, 2), Link(0, 1)}, {Link(2, 1)})


@pytest.mark.parametrize(
    ("cuts", "one_way", "both_ways"),
    [
        (["1>2"], True, False),
        (["1>2", "2>1"], False, True),
        (["1>2", "2>1", "1>3"], False, False),
        ([], False, True),
    ],
)
def test_a_cut_is_one_way_both_ways_or_neither(cuts: list[str], *, one_way: bool, both_ways: bool) -> None:
    links = entry("partition", cuts=cuts).figures(LinkProof).links
    assert links is not None
    assert (links.is_one_way, links.is_both_ways) == (one_way, both_ways)


@pytest.mark.parametrize("cuts", [["1-2"], ["1>x"], [7], "1>2", 7])
def test_a_key_of_another_type_is_missing_and_says_why(cuts: object) -> None:
    figures = entry("partition", cuts=cuts, probe="ok").figures(LinkProof)
    assert (figures.cuts, figures.links, figures.probe) == (None, None, "ok")
    assert list(figures.unread) == ["cuts"]


def test_an_unknown_key_is_ignored() -> None:
    assert entry("kill", of_the_future=7, probe="ok").figures(StepProof) == StepProof(probe="ok")


def test_a_kind_with_another_proof_and_an_unknown_kind_have_none_of_this_type() -> None:
    for step in ("kill", "a-step-of-the-future"):
        assert entry(step, cuts=["1>2"]).figures(LinkProof) == LinkProof()
        assert entry(step, lost_bytes=5).figures(StepProof).lost_bytes == 5


def test_a_step_on_several_nodes_has_the_proof_of_each() -> None:
    log = {"leo_before": 3, "leo_after": 2, "more": "of the future"}
    own = {"holds": ["t-0"], "logs": {"t-0": log}}
    proof = entry("wipe-disk", nodes={"1": own}, lost_bytes=5).figures(DirectoryStep.Proof)
    assert (proof.of(1).holds, proof.of(1).logs) == (("t-0",), {"t-0": MeasuredLog(leo_before=3, leo_after=2)})
    assert proof.of(2) is proof


def test_a_request_has_its_answer_and_its_record() -> None:
    made = entry("create-topic", answer="NONE", since=7, unaware=[], record={"topic_id": "T", "replicas": {"0": [1]}})
    figures = made.figures(CreateTopicStep.Proof)
    assert figures.record is not None
    assert (figures.answer, figures.since, figures.unaware, figures.record.topic_id) == ("NONE", 7, (), "T")
    assert made.figures(RequestProof).answer == "NONE"
    moved = {"old": 0, "new": 5, "leader_epoch": 1, "asked_ns": 1}
    assert list(entry("delete-records", log_start=moved).figures(DeleteRecordsStep.Proof).unread) == ["log_start"]


def test_what_a_step_asked_for_has_the_keys_of_its_kind_and_none_of_another_type() -> None:
    asked = {"from": ["controllers"], "to": "clients", "groups": [["broker(1)"], ["clients"]], "optional": True}
    assert entry("isolate", asked).asked == Asked(
        from_=("controllers",), groups=(("broker(1)",), ("clients",)), optional=True
    )


SIDES = CutSides(nodes=((1,), (2, 0)))


@pytest.mark.parametrize(
    ("step", "whom", "sides"),
    [
        ("partition", "broker-1 | broker-2, clients", SIDES),
        ("limit-bandwidth", "1mbit broker-1 > broker-2", CutSides(nodes=((1,), (2,)), one_way=True)),
        ("isolate", None, None),
        ("kill", "broker-1 | broker-2", None),
    ],
)
def test_an_older_record_has_the_sides_of_a_cut_in_words(step: str, whom: str | None, sides: CutSides | None) -> None:
    assert StepEntry(index=0, step=step, whom=whom).parted == sides


def test_a_record_has_the_sides_of_a_cut(tmp_path: Path) -> None:
    write_steps(RecordFolder(tmp_path), [StepEntry(index=0, step="partition", whom="of any words", sides=SIDES)])
    assert [step.parted for step in read_steps(RecordFolder(tmp_path)) or ()] == [SIDES]
