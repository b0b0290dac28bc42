"""No rule decides from what is only shown: examples, evidence rows and lists are capped, what decides is not."""

from __future__ import annotations

import ast
import importlib
import random
import shutil
from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import partial
from operator import itemgetter
from pathlib import Path
from typing import Any

import pytest
from checkout import ROOT
from judge_records import ELR_ON, Story, by_name, ns
from pyspark.sql import SparkSession
from reconcile_planted import planted_run
from reconcile_together import Make, record_of
from records import RecordBuilder, as_record
from replay_records import LOST

from analysis.judging.one_record import verdict_of
from analysis.reconcile.model import AbortedReads, Reconciliation
from analysis.record.record import Record
from bench.reconciling import reconcile_all
from ebbtide.record.verdict import Verdict, counts_by_kind
from harness.replay.finding import facts_of, finding

DECIDE = (
    "analysis/judge",
    "analysis/judging",
    "analysis/items",
    "analysis/reconcile",
    "analysis/rows",
    "analysis/report",
    "harness/replay",
    "harness/shrink",
    "harness/nightly",
    "ebbtide/record",
    "ebbtide/pytest_plugin",
)
"""Where a run, or what is done about it, is decided."""

SHOWN = (
    "analysis.judge.history.answers._KEPT_MAX",
    "analysis.judge.rules.clause.EVIDENCE_ROWS_MAX",
    "analysis.judge.outcome.reasons._PLACES_MAX",
    "analysis.judge.outcome.reasons._TOLD_MAX",
    "analysis.judge.trace.check._NEAREST_MAX",
    "analysis.judge.rules.reads.witness_agrees._ROWS_MAX",
    "analysis.judge.rules.groups.copied_twice._SHOWN_MAX",
    "analysis.reconcile.crowds.LISTED",
    "analysis.rows.facts._LISTED_MAX",
    "analysis.items.summary.EXAMPLES_MAX",
    "analysis.report.model.PARTITIONS_MAX",
    "analysis.report.model.STATES_MAX",
    "analysis.report.summary._CAUSES_MAX",
    "ebbtide.pytest_plugin.judgement._SHOWN_MAX",
)
"""How many of something are shown. Set to 1, they change no decision: that is what is tested here."""

OTHER = (
    "analysis.judging.many_records._SHOWN_MAX",  # letters of an error
    "analysis.judge.history.log_lines._LINE_BYTES_MAX",  # a longer line is read in pieces
    "analysis.judge.history.log_lines._LOG_BYTES_MAX",  # a longer log counts as damaged
    "analysis.judge.trace.actions._EVERY_ISR_MAX",  # only for the nearest states that are shown
    "analysis.rows.buckets.HELD_BYTES_MAX",  # with more of them sums lie in files
    "analysis.judge.rules.reads.poll_skip._JUMPS_MAX",  # with more of them the rules look at all
    "analysis.judge.rules.appends.send_order.ROWS_MAX",  # with more of them they are read in several passes
    "analysis.judge.rules.groups.commits_asked.COMMITS_MAX",  # with more of them the rules look at all
    "analysis.rows.summing.BLOCKS_MAX",  # with more of them all rows are looked at
    "harness.nightly.shards.SHARDS_MAX",  # an option of a night
    "analysis.report.drawing.layout._NAMED_ROWS_MAX",  # rows of labels in the picture
    "analysis.report.picture.building.PICTURED_MAX",  # what a picture shows
    "analysis.report.picture.building._AIM_MAX",
    "analysis.report.picture.series._BINS_MAX",  # a curve over a longer time is not drawn
    "analysis.report.stories.STORIES_MAX",  # stories in a report, which says how many it leaves out
    "ebbtide.record.clock.READINGS_MAX",  # a record with more is refused
    "ebbtide.record.contents._DEPTH_MAX",
    "ebbtide.record.contents._SHOWN_MAX",  # letters of an error
    "ebbtide.record.manifest._BYTES_MAX",  # a manifest with more is refused
    "ebbtide.record.manifest._PARTITIONS_MAX",
    "ebbtide.record.manifest._NAMED_MAX",  # names in an error
    "ebbtide.record.manifest._REASON_MAX",  # letters of a reason
    "harness.nightly.followup.SHRINK_AT_MOST_S",  # time
    "harness.shrink.steps._ACKED_MAX",  # a trigger of a candidate, which a run answers for
    "harness.shrink.file._NAME_MAX",  # letters of a name
)
"""Limits that cut no list from which anything is decided, each with what it limits."""

TWICE = "no-duplicate-of-an-idempotent-producer"


@pytest.fixture
def one_is_shown(monkeypatch: pytest.MonkeyPatch) -> Callable[[], None]:
    def set_all() -> None:
        for name in SHOWN:
            monkeypatch.setattr(name, 1)

    return set_all


def modules() -> Iterator[tuple[str, ast.Module]]:
    for folder in DECIDE:
        for path in sorted((ROOT / folder).rglob("*.py")):
            name = path.relative_to(ROOT).with_suffix("").as_posix().replace("/", ".")
            yield name.removesuffix(".__init__"), ast.parse(path.read_text())


def test_every_limit_is_known_to_be_one_of_what_is_shown_or_to_cut_no_list() -> None:
    named = {
        f"{module}.{one.id}"
        for module, tree in modules()
        for statement in tree.body
        for one in ast.walk(statement)
        if isinstance(statement, ast.Assign | ast.AnnAssign)
        and isinstance(one, ast.Name)
        and isinstance(one.ctx, ast.Store)
        and one.id.isupper()
        and any(word in one.id for word in ("MAX", "LISTED", "AT_MOST"))
    }
    assert named == {*SHOWN, *OTHER}


def test_nothing_but_the_template_of_a_page_reads_the_examples_of_an_anomaly() -> None:
    readers = {
        module
        for module, tree in modules()
        for one in ast.walk(tree)
        if isinstance(one, ast.Attribute) and one.attr == "examples"
    }
    assert not readers


def decided_parts(verdict: Verdict) -> dict[str, Any]:
    """All of a verdict but what it shows: the sentences, the evidence and the examples."""
    return {
        "outcome": verdict.outcome,
        "properties": by_name(verdict),
        "losses": verdict.losses,
        "regressions": verdict.regressions,
        "coverage": verdict.coverage,
        "kinds": counts_by_kind(verdict.anomalies),
        "counts": verdict.counts,
        "finding": finding(verdict),
        "facts": facts_of(verdict),
    }


def duplicates(*producers: int, unreadable: int | None = None) -> RecordBuilder:
    """A value of each producer that stands twice; producer 1 is idempotent, producer 2 is not.

    `unreadable`: the value with that number stands once, and was in a partition that nobody read besides.
    """
    builder = RecordBuilder().producer(1, idempotent=True).producer(2)
    for value, producer in enumerate(producers, 1):
        builder.acked(value, at=2 * value, producer=producer).final(value, at=2 * value)
        if value == unreadable:
            builder.acked(value, at=0, producer=producer, partition=1).not_in_final_read(partition=1)
        else:
            builder.final(value, at=2 * value + 1)
    return builder


DUPLICATES = {
    "45 of others": (duplicates(*[2] * 45), "holds"),
    "the 24th of 25": (duplicates(*[2] * 23, 1, 2), "violated"),
    "the 24th of 25, unreadable": (duplicates(*[2] * 23, 1, 2, unreadable=24), "unknown"),
}


RECORDS: dict[str, Make] = {name: record_of(partial(itemgetter(0), case)) for name, case in DUPLICATES.items()}
RECORDS["planted"] = record_of(lambda: planted_run(random.Random(0))[0])
RECORDS["real"] = lambda folder: as_record(Path(shutil.copytree(LOST, folder)))


@pytest.mark.spark
def test_verdicts_are_the_same_however_few_of_anything_are_shown(
    spark: SparkSession,
    found: Mapping[str, Reconciliation],
    made: Mapping[str, Record],
    one_is_shown: Callable[[], None],
) -> None:
    records = [*made.values()]

    def verdicts(found: Iterable[Reconciliation]) -> list[Verdict]:
        return [verdict_of(*one) for one in zip(records, found, strict=True)]

    whole = verdicts(found.values())
    one_is_shown()
    few = verdicts(reconcile_all(spark, records))
    for record, shown, one in zip(records, whole, few, strict=True):
        assert decided_parts(one) == decided_parts(shown), record
        assert all(len(anomaly.examples) == 1 for anomaly in one.anomalies)
    assert max(len(anomaly.examples) for verdict in whole for anomaly in verdict.anomalies) == 20
    expected = [status for _, status in DUPLICATES.values()]
    assert [by_name(verdict)[TWICE] for verdict in whole[: len(expected)]] == expected
    assert finding(whole[-1]).facts == ("committed loss by last-replica-standing",)


OF_THEM = (
    "no-committed-loss-unless-allowed",
    "no-hw-regression-unless-allowed",
    "no-aborted-read",
    "api-agrees-with-log",
)


def many_of_all(record: Path) -> Story:
    """45 of each: answers that fit no state, losses and falls that nothing explains, aborted reads."""
    story = Story(record, kafka="4.3.1", features=ELR_ON)
    for broker in (1, 2, 3):
        story.broker(0, broker)
    story.state(1)
    (record / "evidence.json").write_text(
        '{"timeline": {"controller": null, "how": "", "end_offset": 0, "logs": [], "missing": []}}'
    )
    for number in range(45):
        answer = {"leader": 1, "leader_epoch": 0, "isr": [2], "elr": [], "last_known_elr": []}
        at = {"asked_ns": ns(5 + number), "at_ns": ns(5.01 + number)}
        story.tables["described"].append({"topic": "t", "partition": 0, "broker": 2, **answer, **at})
        story.lose(10 * number, 10 * number, acked_s=5)
        story.regress(1_000 - number, 10, epochs=(0, 0), at_s=(6, 7))
    story.aborted_reads = [
        AbortedReads(kind="aborted-read", topic="t", partition=at, count=1, first={"offset": 0, "value": at})
        for at in range(45)
    ]
    return story


def test_a_rule_counts_all_of_its_cases_and_shows_some(tmp_path: Path, one_is_shown: Callable[[], None]) -> None:
    story = many_of_all(tmp_path)
    whole = story.judge()
    one_is_shown()
    few = story.judge()
    assert decided_parts(few) == decided_parts(whole)
    violated = {one.name: len(one.evidence) for one in whole.properties if one.name in OF_THEM}
    assert violated == dict.fromkeys(OF_THEM, 20)
    assert {by_name(whole)[name] for name in OF_THEM} == {"violated"}
    for verdict in (whole, few):
        (answers,) = [why for why in verdict.why if "api-agrees-with-log" in why]
        assert "(45 cases, first: t-0, broker 2)" in answers
        assert any("no-aborted-read (45 cases, first: t-0)" in why for why in verdict.why)
    assert {len(one.evidence) for one in few.properties if one.status == "violated"} == {1}


def test_what_is_set_to_one_here_is_there() -> None:
    for name in SHOWN:
        module, _, limit = name.rpartition(".")
        assert getattr(importlib.import_module(module), limit) > 1
