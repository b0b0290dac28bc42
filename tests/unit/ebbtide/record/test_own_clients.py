"""What became of the records of own clients is one line, wherever people look."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from ebbtide.errors import ExitCode
from ebbtide.record.manifest import Manifest
from ebbtide.record.outcomes import exit_code_of, next_command
from ebbtide.record.own_producers import OwnProducer
from ebbtide.record.verdict import Verdict, unfinished_verdict

KEPT = OwnProducer(client="orders-1", acks=1, topic="orders", partition=0, acked=5273)
LOST = OwnProducer(
    client="orders-1", acks=1, topic="orders", partition=1, acked=600, lost=500, first_offset=100, last_offset=599
)


def verdict(*producers: OwnProducer) -> Verdict:
    return replace(unfinished_verdict("run-1"), own_producers=[*producers])


@pytest.mark.parametrize(
    ("judged", "says"),
    [
        (verdict(KEPT), "5,273 acked records, none lost"),
        (verdict(KEPT, LOST), "5,873 acked records, 500 lost"),
        (unfinished_verdict("run-1"), ""),
    ],
)
def test_the_figure_has_what_is_known(judged: Verdict, says: str) -> None:
    assert judged.own_figure == says


def test_after_a_loss_the_next_command_explains_the_first_lost_record() -> None:
    command = next_command("runs/one", Manifest(run_id="run-1"), verdict(KEPT, LOST))
    assert command == "ebbtide explain runs/one    (its first lost record, step by step)"


@pytest.mark.parametrize(("acks", "code"), [(-1, ExitCode.CONTRADICTED), (1, ExitCode.AS_PREDICTED)])
def test_fail_on_loss_counts_what_own_producers_sent_with_acks_all(acks: int, code: ExitCode) -> None:
    judged = replace(verdict(KEPT, replace(LOST, acks=acks)), outcome="as-predicted")
    assert exit_code_of(judged, "loss") is code
    assert exit_code_of(judged) is ExitCode.AS_PREDICTED


def test_the_loss_to_explain_first_is_one_of_acks_all() -> None:
    worse = replace(LOST, acks=-1, partition=0)
    assert verdict(LOST, worse, replace(worse, acks=-1, first_offset=None)).first_own_loss == worse
    assert verdict(KEPT).first_own_loss is None
