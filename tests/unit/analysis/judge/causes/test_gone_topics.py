"""What was lost with a topic that the controllers no longer know is theirs, unless a step touched their disks."""

from __future__ import annotations

from pathlib import Path

import msgspec
import pytest
from worked_examples import Example, record_of

from analysis.judge.causes.gone_topics import of_gone_topics
from analysis.judge.history.evidence import AttributedAnomaly, Attribution
from analysis.reconcile.model import LostRange
from ebbtide.record.own_producers import WireFacts


def cause(folder: Path, steps: str, topic: str = "t", wire: WireFacts | None = None) -> tuple[str | None, str]:
    """Return the cause of a loss of t-0 and its reason, where one topic is gone."""
    record = record_of(Example({"steps": [steps]}, "", ""), folder / "record")
    record.manifest = msgspec.structs.replace(record.manifest, gone_topics=(topic,), wire=wire)
    lost = LostRange(
        kind="lost",
        topic="t",
        partition=0,
        acks=-1,
        committed=True,
        count=9,
        first_offset=0,
        last_offset=8,
        first_done_ns=0,
        last_done_ns=0,
    )
    elsewhere = Attribution(cause="unclean-election", election=None, why="an election")
    (one,) = of_gone_topics(record, [AttributedAnomaly(items=lost, committed=True, attribution=elsewhere)])
    return one.attribution.cause, one.attribution.why


@pytest.mark.parametrize("steps", ["step=kill nodes=100,101,102 at=5", "step=wipe-disk nodes=1,2,3 at=5"])
def test_without_a_step_on_the_disks_of_controllers_nothing_explains_it(tmp_path: Path, steps: str) -> None:
    assert cause(tmp_path, steps)[0] == "unexplained"


def test_where_the_disks_of_controllers_were_replaced_nobody_knows_a_cause(tmp_path: Path) -> None:
    found, why = cause(tmp_path, "step=wipe-disk nodes=100,101,102 at=5")
    assert found is None
    assert "step 0 (wipe-disk) may explain it" in why


def test_other_topics_keep_their_cause(tmp_path: Path) -> None:
    assert cause(tmp_path, "step=kill nodes=1 at=5", topic="u")[0] == "unclean-election"


def test_a_client_through_published_ports_may_have_deleted_it(tmp_path: Path) -> None:
    kill = "step=kill nodes=100,101,102 at=5"
    assert cause(tmp_path / "deletes", kill, wire=WireFacts(unrecorded={"DeleteTopics": 1}))[0] is None
    assert cause(tmp_path / "others", kill, wire=WireFacts(unrecorded={"CreateTopics": 1}))[0] == "unexplained"
