"""Inputs that a copier copied again are attributed to the election of __consumer_offsets that lost its offset."""

from __future__ import annotations

from pathlib import Path

import pytest
from coordinator_stories import CoordinatorStory, healthy_coordinator, last_coordinator_standing
from copier_scenario import add_copier
from judge_records import by_name, ns

from analysis.reconcile.model import WrongCopies
from ebbtide.record.clients import ClientEvent, TxnOutcome, write_client_events
from ebbtide.record.files import RecordFolder
from ebbtide.record.verdict import Verdict

CLAUSE = "exactly-once-copies"
REPEATED = "1 input that was copied again, last-replica-standing"


class CopierStory:
    """A copier whose transaction is committed at 5 s; its coordinator loses its log, and leads again at 21 s.

    A copy is in the transaction of the number of its value.
    """

    def __init__(self, record: Path, *, end: int = 0, of: CoordinatorStory | None = None) -> None:
        record.mkdir(exist_ok=True)
        self.story = of or last_coordinator_standing(record, end=end)
        self.story.predict("")
        add_copier(record)
        self.events: list[ClientEvent] = []

    def copy(
        self, sent_s: float, *, ended_s: float | None, value: int, outcome: TxnOutcome = "committed", offset: int = 7
    ) -> None:
        """Copy an input once more, in a transaction of its own."""
        of = {"topic": "t", "partition": 0, "producer": 2, "value": value, "sent_ns": ns(sent_s)}
        self.story.tables["copies"].append(of | {"group": "copiers", "offset": offset, "copied_to": "u"})
        self.story.tables["sends"].append(
            of
            | {"topic": "u", "sequence": value, "acks": -1, "status": "acked", "txn": value, "txn_outcome": outcome}
            | {"offset": value, "done_ns": ns(sent_s + 0.1)}
        )
        if ended_s is not None:
            self.end(ended_s, value, outcome)

    def end(self, at_s: float, txn: int, outcome: TxnOutcome = "aborted") -> None:
        """End a transaction; after one that is not committed, the copier goes back to where its group is."""
        self.events.append(ClientEvent(event="transaction", at_ns=ns(at_s), txn=txn, outcome=outcome))

    def show_copy(self, at_s: float, value: int) -> None:
        """A read_committed consumer gets a copy."""
        self.story.tables["polls"].append(
            {"topic": "u", "partition": 0, "offset": value, "value": value, "consumer": 1, "session": 1}
            | {"leader_epoch": 0, "isolation": "read_committed", "polled_ns": ns(at_s)}
        )

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
        write_client_events(RecordFolder(self.story.record), "producer-2", self.events)
        self.story.copies = [
            WrongCopies(kind="copied-twice", group="copiers", topic="t", partition=0, count=1, first={"offset": 7})
        ]
        return self.story.judge()


def is_explained(verdict: Verdict) -> bool:
    explained = any(REPEATED in why for why in verdict.why)
    assert by_name(verdict)[CLAUSE] == ("holds" if explained else "unknown"), verdict.why
    return explained


def copied_again(
    record: Path, *, end: int = 0, ended_s: float | None = 5, shown: int | None = None, aborted_s: float | None = 23
) -> CopierStory:
    story = CopierStory(record, end=end)
    story.copy(4.5, ended_s=ended_s, value=1)
    story.serve(6, 8)
    if aborted_s is not None:
        story.end(aborted_s, 5)
    story.serve(24, shown)
    story.copy(25, ended_s=26, value=10)
    return story


def first_coordinator_loses_nothing(record: Path) -> CoordinatorStory:
    """Broker 2 is elected cleanly at 8 s, loses its log as the last of the ISR, and leads again at 21 s."""
    clean = healthy_coordinator(record)
    clean.coordinate(8, leader=2, isr=[2, 3])
    clean.mark(9, 2, 1, 30)
    clean.coordinate(10, isr=[2])
    clean.coordinator_loses_power(12, 2, end=0)
    clean.coordinate(15, leader=-1)
    clean.broker(20, 2)
    clean.coordinate(21, leader=2)
    clean.mark(22, 2, 3, 0)
    clean.mark(23, 2, 3, 0)
    return clean


def copied_after_two_elections(record: Path, *shown: tuple[float, int | None]) -> CopierStory:
    story = CopierStory(record, of=first_coordinator_loses_nothing(record))
    story.copy(4.5, ended_s=5, value=1)
    for at_s, offset in shown:
        story.serve(at_s, offset, broker=2)
    story.end(23, 5)
    story.copy(25, ended_s=26, value=10)
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
    story.end(23, 5)
    story.copy(25, ended_s=26, value=10)
    assert not is_explained(story.judge())


def test_a_transaction_whose_end_is_not_known_explains_nothing(tmp_path: Path) -> None:
    assert not is_explained(copied_again(tmp_path, ended_s=None).judge())


def test_a_third_copy_needs_an_explanation_too(tmp_path: Path) -> None:
    story = copied_again(tmp_path)
    story.serve(28, 8)
    story.copy(29, ended_s=30, value=13)
    assert not is_explained(story.judge())


def test_copies_of_aborted_transactions_need_none(tmp_path: Path) -> None:
    story = copied_again(tmp_path)
    story.copy(29, ended_s=30, value=13, outcome="aborted")
    assert is_explained(story.judge())


def test_a_clean_failover_explains_nothing_whatever_else_was_lost(tmp_path: Path) -> None:
    clean = healthy_coordinator(tmp_path)
    clean.coordinator_loses_power(12, 1, end=0)
    clean.coordinate(15, leader=2, isr=[2, 3])
    clean.mark(22, 2, 1, 10)
    clean.mark(23, 2, 1, 10)
    story = CopierStory(tmp_path, of=clean)
    story.copy(4.5, ended_s=5, value=1)
    story.end(23, 5)
    story.serve(24, None, broker=2)
    story.copy(25, ended_s=26, value=10)
    assert not is_explained(story.judge())


def test_no_election_after_the_first_answer_that_lacks_the_offset_explains_it(tmp_path: Path) -> None:
    assert is_explained(copied_after_two_elections(tmp_path / "lost later", (9.5, 8), (24, None)).judge())
    assert not is_explained(copied_after_two_elections(tmp_path / "asked once", (9.5, None)).judge())
    assert not is_explained(copied_after_two_elections(tmp_path / "asked twice", (9.5, None), (24, None)).judge())
    shown_before = copied_after_two_elections(tmp_path / "shown before", (9.1, 8), (9.5, None), (24, None))
    assert not is_explained(shown_before.judge())


def test_an_offset_that_a_new_coordinator_does_not_show_yet_is_not_lost(tmp_path: Path) -> None:
    assert is_explained(copied_after_two_elections(tmp_path, (9.1, None), (9.5, 8), (24, None)).judge())


def test_an_offset_that_waits_for_its_marker_is_not_lost(tmp_path: Path) -> None:
    story = CopierStory(tmp_path / "waiting")
    story.copy(4.5, ended_s=5, value=1)
    story.serve(5.5, None)
    story.end(23, 5)
    story.serve(24, None)
    story.copy(25, ended_s=26, value=10)
    assert is_explained(story.judge())

    story = CopierStory(tmp_path / "written")
    story.copy(4.5, ended_s=5, value=1)
    story.end(5.2, 2, "committed")
    story.serve(5.5, None)
    story.end(23, 5)
    story.serve(24, None)
    story.copy(25, ended_s=26, value=10)
    assert not is_explained(story.judge())


def test_an_offset_that_was_shown_after_the_election_is_no_loss_of_that_election(tmp_path: Path) -> None:
    story = copied_again(tmp_path)
    story.serve(23, 20)
    assert not is_explained(story.judge())


@pytest.mark.parametrize("outcome", ["committed", "unknown", None])
def test_a_transaction_that_may_have_committed_a_later_offset_after_the_election_excuses_nothing(
    tmp_path: Path, outcome: TxnOutcome | None
) -> None:
    story = copied_again(tmp_path)
    story.copy(22, ended_s=None if outcome is None else 22.5, value=4, outcome=outcome or "unknown", offset=9)
    assert not is_explained(story.judge())


def test_transactions_of_earlier_inputs_and_before_the_election_do_not_count(tmp_path: Path) -> None:
    story = copied_again(tmp_path)
    story.copy(4.6, ended_s=5.1, value=2, offset=9)
    story.copy(22, ended_s=22.5, value=4, offset=6)
    story.copy(24.1, ended_s=24.5, value=6, offset=10, outcome="aborted")
    story.copy(25.1, ended_s=27, value=11, offset=11)
    assert is_explained(story.judge())


def test_a_copier_that_is_not_known_to_have_read_its_offset_again_has_no_excuse(tmp_path: Path) -> None:
    assert is_explained(copied_again(tmp_path / "after the election", aborted_s=22).judge())
    assert not is_explained(copied_again(tmp_path / "before the election", aborted_s=20).judge())
    never = copied_again(tmp_path / "never", aborted_s=None)
    never.end(24.5, 11)
    assert not is_explained(never.judge())


def test_a_copy_whose_transaction_ended_nobody_knows_how_makes_its_input_unexplained(tmp_path: Path) -> None:
    story = copied_again(tmp_path / "third")
    story.serve(28, 8)
    story.copy(29, ended_s=30, value=13, outcome="unknown")
    assert not is_explained(story.judge())

    # The consumer makes the second copy visible.
    story = CopierStory(tmp_path / "second")
    story.copy(4.5, ended_s=5, value=1)
    story.copy(25, ended_s=26, value=10, outcome="unknown")
    story.show_copy(27, 10)
    verdict = story.judge()
    assert not is_explained(verdict)
    assert any("1 input that was copied again, cause not known: how the transaction" in why for why in verdict.why)


def test_an_input_with_one_visible_copy_is_not_copied_again(tmp_path: Path) -> None:
    story = copied_again(tmp_path)
    story.copy(4.6, ended_s=5, value=2, offset=8)
    story.copy(25.1, ended_s=30, value=13, offset=8, outcome="unknown")
    assert is_explained(story.judge())
