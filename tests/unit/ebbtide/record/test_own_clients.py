"""What became of the records of own clients is one line, wherever people look."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from ebbtide.record.manifest import Manifest
from ebbtide.record.outcomes import next_command
from ebbtide.record.own_clients import own_counts, own_sentence
from ebbtide.record.own_producers import OwnProducer
from ebbtide.record.verdict import PropertyResult, Verdict, unfinished_verdict

KEPT = OwnProducer(client="orders-1", acks=1, topic="orders", partition=0, acked=5273)
LOST = OwnProducer(
    client="orders-1", acks=1, topic="orders", partition=1, acked=600, lost=500, first_offset=100, last_offset=599
)


def verdict(*producers: OwnProducer, **evidence: int) -> Verdict:
    rows = [evidence] if evidence else []
    found = PropertyResult(name="own-commits-follow-the-handling", kip="", status="holds", evidence=rows)
    return replace(unfinished_verdict("run-1"), own_producers=[*producers], properties=[found])


@pytest.mark.parametrize(
    ("judged", "says"),
    [
        (verdict(KEPT), "your producers: 5,273 acked records, none lost"),
        (verdict(KEPT, LOST), "your producers: 5,873 acked records, 500 lost"),
        (
            verdict(KEPT, handled=300, twice=1),
            "your producers: 5,273 acked records, none lost; your groups: 300 records handled before their commits, "
            "1 of them more than once",
        ),
        (unfinished_verdict("run-1"), ""),
    ],
)
def test_the_line_has_what_is_known(judged: Verdict, says: str) -> None:
    assert own_sentence(judged) == says


def test_a_run_without_published_ports_has_no_counts() -> None:
    assert own_counts(unfinished_verdict("run-1")) is None
    assert own_counts(verdict()) == (0, 0)


def test_after_a_loss_the_next_command_explains_the_first_lost_record() -> None:
    command = next_command("runs/one", Manifest(run_id="run-1"), verdict(KEPT, LOST))
    assert command == "ebbtide explain runs/one orders-1:100    (your first lost record, step by step)"
