"""Inputs that a copier copied again are attributed to the election of __consumer_offsets that lost its offset."""

from __future__ import annotations

from pathlib import Path

from coordinator_stories import CoordinatorStory, last_coordinator_standing
from judge_records import ELR_OFF, by_name, ns

from analysis.reconcile.model import WrongCopies
from ebbtide.record.clients import ClientEvent, TxnOutcome, write_client_events
from ebbtide.record.verdict import Verdict

CLAUSE = "exactly-once-copies"
COPIER = """
[topics.u]
[topics.__consumer_offsets]
[[producers]]
id = 2
topic = "u"
client = "java"
transactional = true
txn_records = 20
copies = "t"
group = "copiers"
"""
REPEATED = "1 input that was copied again, last-replica-standing"


class CopierStory:
    """A copier whose transaction is committed at 5 s; its coordinator loses its log, and leads again at 21 s."""

    def __init__(self, record: Path, *, end: int = 0, of: CoordinatorStory | None = None) -> None:
        record.mkdir(exist_ok=True)
        self.story = of or last_coordinator_standing(record, end=end)
        self.story.predict("")
        scenario = record / "scenario.toml"
        scenario.write_text(scenario.read_text() + COPIER)
        self.events: list[ClientEvent] = []

    def copy(self, sent_s: float, *, ended_s: float | None, value: int, outcome: TxnOutcome = "committed") -> None:
        """Copy the input at offset 7 once more, in a transaction of its own."""
        of = {"topic": "t", "partition": 0, "producer": 2, "value": value, "sent_ns": ns(sent_s)}
        self.story.tables["copies"].append(of | {"group": "copiers", "offset": 7, "copied_to": "u"})
        self.story.tables["sends"].append(
            of
            | {"topic": "u", "sequence": value, "acks": -1, "status": "acked", "txn": value, "txn_outcome": outcome}
            | {"offset": value, "done_ns": ns(sent_s + 0.1)}
        )
        if ended_s is not None:
            self.events.append(ClientEvent(event="transaction", at_ns=ns(ended_s), txn=value, outcome=outcome))

    def serve(self, at_s: float, offset: int | None, broker: int = 1) -> None:
        self.story.tables["commits"].append(
            {
                "group": "copiers",
                "topic": "t",
                "partition": 0,
                "offset": offset,
                "broker": broker,
                "offsets_partition": 0,
                "status": "served",
                "asked_ns": ns(at_s),
                "done_ns": ns(at_s + 0.01),
            }
        )

    def judge(self) -> Verdict:
        write_client_events(self.story.record, "producer-2", self.events)
        self.story.copies = [
            WrongCopies(kind="copied-twice", group="copiers", topic="t", partition=0, count=1, first={"offset": 7})
        ]
        return self.story.judge()


def is_explained(verdict: Verdict) -> bool:
    explained = any(REPEATED in why for why in verdict.why)
    assert by_name(verdict)[CLAUSE] == ("holds" if explained else "unknown"), verdict.why
    return explained


def copied_again(record: Path, *, end: int = 0, ended_s: float | None = 5, shown: int | None = None) -> CopierStory:
    story = CopierStory(record, end=end)
    story.copy(4.5, ended_s=ended_s, value=1)
    story.serve(6, 8)
    story.serve(24, shown)
    story.copy(25, ended_s=26, value=2)
    return story


def test_an_election_that_lost_the_offset_explains_the_second_copy(tmp_path: Path) -> None:
    verdict = copied_again(tmp_path).judge()
    assert is_explained(verdict)
    assert any(REPEATED in why and "(election of broker 1, leader epoch 2)" in why for why in verdict.why)


def test_an_offset_that_the_log_may_have_kept_explains_nothing(tmp_path: Path) -> None:
    # It is at 20 to 29 of the log, which ended at 25.
    assert not is_explained(copied_again(tmp_path, end=25).judge())


def test_a_coordinator_that_still_showed_the_offset_explains_nothing(tmp_path: Path) -> None:
    assert is_explained(copied_again(tmp_path / "older", shown=7).judge())
    assert not is_explained(copied_again(tmp_path / "same", shown=8).judge())


def test_the_last_answer_before_the_second_copy_counts(tmp_path: Path) -> None:
    story = copied_again(tmp_path)
    story.serve(24.5, 8)
    story.serve(27, None)
    assert not is_explained(story.judge())


def test_the_answer_of_a_broker_that_does_not_lead_does_not_count(tmp_path: Path) -> None:
    story = copied_again(tmp_path)
    story.serve(24.5, 8, broker=2)
    assert is_explained(story.judge())


def test_a_coordinator_that_was_not_asked_between_the_copies_explains_nothing(tmp_path: Path) -> None:
    story = CopierStory(tmp_path)
    story.copy(4.5, ended_s=5, value=1)
    story.serve(4.8, 3)
    story.copy(25, ended_s=26, value=2)
    assert not is_explained(story.judge())


def test_a_transaction_whose_end_is_not_known_explains_nothing(tmp_path: Path) -> None:
    assert not is_explained(copied_again(tmp_path, ended_s=None).judge())


def test_a_third_copy_needs_an_explanation_too(tmp_path: Path) -> None:
    story = copied_again(tmp_path)
    story.serve(28, 8)
    story.copy(29, ended_s=30, value=3)
    assert not is_explained(story.judge())


def test_copies_of_aborted_transactions_need_none(tmp_path: Path) -> None:
    story = copied_again(tmp_path)
    story.copy(29, ended_s=30, value=3, outcome="aborted")
    assert is_explained(story.judge())


def test_a_clean_failover_explains_nothing_whatever_else_was_lost(tmp_path: Path) -> None:
    clean = CoordinatorStory(tmp_path, features=ELR_OFF)
    for broker in (1, 2, 3):
        clean.broker(0, broker)
    clean.coordinate(1)
    clean.mark(4, 1, 0, 20)
    clean.mark(6, 1, 0, 30)
    clean.coordinator_loses_power(12, 1, end=0)
    clean.coordinate(15, leader=2, isr=[2, 3])
    clean.mark(22, 2, 1, 10)
    clean.mark(23, 2, 1, 10)
    story = CopierStory(tmp_path, of=clean)
    story.copy(4.5, ended_s=5, value=1)
    story.serve(24, None, broker=2)
    story.copy(25, ended_s=26, value=2)
    assert not is_explained(story.judge())
