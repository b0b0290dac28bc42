"""The clause on copiers: when it is violated, and when it is unknown or not exercised."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any
from unittest.mock import patch

import msgspec
import pytest
from clause_cases import judged

from analysis.judge.history.evidence import AttributedAnomaly, Attribution
from analysis.judge.rules.clause import Finding
from analysis.judge.rules.groups import exactly_once_copies
from analysis.judge.rules.groups.copied_offsets import copied_offsets
from analysis.reconcile.model import WrongCopies
from ebbtide.record.verdict import Cause
from ebbtide.scenario.model import CopiedOffsets, ProducerSpec, Scenario, TopicSpec

TWICE = WrongCopies(
    kind="copied-twice", group="copiers", topic="in", partition=0, count=3, first={"offset": 7, "values": [1, 2]}
)
SKIPPED = WrongCopies(kind="input-skipped", group="copiers", topic="in", partition=1, count=1, first={"offset": 9})


def check(
    *copies: WrongCopies,
    offsets: Mapping[str, CopiedOffsets] | None = None,
    sent: Mapping[str, int] | None = None,
    why_lossy: str | None = None,
    repeats: Sequence[AttributedAnomaly[WrongCopies]] = (),
    unknown_kinds: Mapping[str, str] | None = None,
) -> Finding:
    given = judged(
        copies=copies,
        copies_sent={"copiers": 100, "others": 100} if sent is None else sent,
        blamed=repeats,
        unknown=unknown_kinds,
    )
    committed = {"copiers": "in-transaction"} if offsets is None else offsets
    with (
        patch.object(exactly_once_copies, "copied_offsets", return_value=committed),
        patch.object(exactly_once_copies, "why_lossy", return_value=why_lossy),
    ):
        return exactly_once_copies.RULE.check(given)


@pytest.mark.parametrize("wrong", [TWICE, SKIPPED], ids=lambda one: one.kind)
def test_an_input_without_exactly_one_copy_is_a_violation(wrong: WrongCopies) -> None:
    found = check(wrong)
    assert found.status == "violated"
    row: Any = found.evidence[0]
    assert (row["kind"], row["group"], row["topic"], row["count"]) == (wrong.kind, "copiers", "in", wrong.count)


def test_one_copy_of_each_input_is_what_was_promised() -> None:
    assert check().status == "holds"


def test_a_copier_that_copied_nothing_exercises_nothing() -> None:
    assert check(sent={}).status == "not-exercised"
    assert check(sent={"others": 100}).status == "not-exercised"


def test_offsets_outside_of_the_transaction_promise_nothing() -> None:
    found = check(TWICE, SKIPPED, offsets={"copiers": "after-transaction"})
    assert (found.status, found.evidence) == (
        "not-exercised",
        ({"why": "no copier commits the offsets of its group in its transactions"},),
    )


def test_only_the_group_with_offsets_in_its_transactions_is_held_against_kafka() -> None:
    offsets: dict[str, CopiedOffsets] = {"copiers": "after-transaction", "others": "in-transaction"}
    assert check(TWICE, offsets=offsets).status == "holds"


def test_a_log_that_lost_records_excuses_what_went_wrong_and_not_what_did_not() -> None:
    found = check(TWICE, why_lossy="a log of the run lost records")
    assert found.status == "unknown"
    row: Any = found.evidence[0]
    assert row["why"] == "a log of the run lost records"
    assert check(why_lossy="a log of the run lost records").status == "holds"


def repeat(
    count: int, cause: Cause | None = "last-replica-standing", group: str = "copiers"
) -> AttributedAnomaly[WrongCopies]:
    return AttributedAnomaly(
        items=msgspec.structs.replace(TWICE, group=group, count=count),
        committed=True,
        attribution=Attribution(cause=cause, election=None, why="why"),
    )


@pytest.mark.parametrize(
    ("repeats", "status"),
    [
        ([repeat(3)], "holds"),
        ([repeat(2), repeat(1, "unclean-election")], "holds"),
        ([repeat(2)], "unknown"),
        ([repeat(2), repeat(1, None)], "unknown"),
        ([repeat(3, group="others")], "unknown"),
        ([], "unknown"),
    ],
)
def test_elections_that_lost_the_offsets_allow_the_inputs_that_they_explain_all_or_none(
    repeats: list[AttributedAnomaly[WrongCopies]], status: str
) -> None:
    assert check(TWICE, why_lossy="a log of the run lost records", repeats=repeats).status == status


def test_a_lost_offset_explains_no_skipped_input_and_nothing_where_no_log_lost_records() -> None:
    skipped = WrongCopies(kind="input-skipped", group="copiers", topic="in", partition=0, count=3, first={"offset": 9})
    assert check(skipped, why_lossy="a log of the run lost records", repeats=[repeat(3)]).status == "unknown"
    assert check(TWICE, repeats=[repeat(3)]).status == "violated"


@pytest.mark.parametrize("kind", ["copied-twice", "input-skipped"])
def test_a_kind_that_is_unknown_leaves_the_clause_unknown(kind: str) -> None:
    found = check(unknown_kinds={kind: "there was no final read"})
    assert (found.status, found.evidence) == ("unknown", ({"why": "there was no final read"},))


def test_without_a_scenario_nobody_knows_what_was_promised() -> None:
    found = exactly_once_copies.RULE.check(judged(copies=[TWICE], copies_sent={"copiers": 1}))
    assert copied_offsets(None) is None
    assert found.status == "unknown"


def test_a_group_with_one_copier_that_commits_outside_is_promised_nothing() -> None:
    def copier(id_: int, offsets: CopiedOffsets | None) -> ProducerSpec:
        return ProducerSpec(id=id_, topic="out", copies="in", group="copiers", offsets=offsets)

    scenario = Scenario(
        name="s",
        title="s",
        kafka=("4.3.1",),
        topics={"in": TopicSpec(), "out": TopicSpec()},
        producers=(
            ProducerSpec(id=1, topic="in", count=1),
            copier(2, "after-transaction"),
            copier(3, None),
            ProducerSpec(id=4, topic="out", copies="in", group="others"),
        ),
    )
    assert copied_offsets(scenario) == {"copiers": "after-transaction", "others": "in-transaction"}
