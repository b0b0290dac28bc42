"""A report, its headline and the explanation of a record show the commits that groups did not get back."""

from __future__ import annotations

import re
from pathlib import Path

import msgspec
import pytest
from records import RecordBuilder, as_record

from analysis.explain.life import explain
from analysis.explain.subject import subject_of_value
from analysis.report.html import render
from analysis.report.model import build
from analysis.sentences.words import count_lost_commits, headline
from ebbtide.record.folder import RecordFolder
from ebbtide.record.manifest import Manifest
from ebbtide.record.verdict import (
    AnomalyCount,
    CommitLoss,
    Counts,
    PropertyResult,
    PropertyStatus,
    RecordedElection,
    Verdict,
    write_verdict,
)
from ebbtide.rules.table import COMMITS_KEPT

LOST = CommitLoss(
    kind="commit-lost",
    group="g",
    topic="t",
    partition=0,
    count=1,
    offset=20,
    served=10,
    offsets_partition=0,
    cause="last-replica-standing",
    election=RecordedElection(metadata_offset=9, leader=3, leader_epoch=2),
)


def _verdict(status: PropertyStatus | None = "holds", *, lost: bool = True) -> Verdict:
    found = AnomalyCount(kind="commit-lost", topic="t", partition=0, count=1)
    clause = [PropertyResult(name=COMMITS_KEPT, kip="KIP-966", status=status)] if status is not None else []
    return Verdict(
        run_id="run",
        outcome="as-predicted",
        counts=Counts(sends=1, acked=1),
        anomalies=[found] if lost else [],
        commits=[LOST] if lost else [],
        properties=clause,
    )


def test_the_headline_and_the_page_name_what_was_lost(tmp_path: Path) -> None:
    assert headline(_verdict(), "3.9.1", sends=True).endswith(
        "none of 1 acked records is lost; 1 acked commit of groups is lost (last-replica-standing)."
    )
    page = render(build(as_record(tmp_path, Manifest(run_id="run")), _verdict()))
    assert "Commits of groups that were lost" in page
    assert "broker 3, leader epoch 2" in page
    assert "every lost commit of a group is one that the specification allows" in page


def test_the_headline_counts_inputs_that_were_copied_twice_or_skipped() -> None:
    counts = (("copied-twice", 0, 1), ("copied-twice", 1, 399), ("input-skipped", 0, 1))
    found = [AnomalyCount(kind=kind, topic="t", partition=at, count=count) for kind, at, count in counts]
    said = headline(msgspec.structs.replace(_verdict(lost=False), anomalies=found), "4.3.1", sends=True)
    assert said.endswith("records is lost; 400 inputs are copied twice; 1 input is skipped by a copier.")


def test_a_report_without_lost_commits_says_nothing_of_them(tmp_path: Path) -> None:
    page = render(build(as_record(tmp_path, Manifest(run_id="run")), _verdict(lost=False)))
    assert "Commits of groups that were lost" not in page


@pytest.mark.parametrize(
    ("verdict", "shown"),
    [(_verdict(), "1"), (_verdict(lost=False), "0"), (_verdict("unknown", lost=False), "?"), (_verdict(None), "-")],
)
def test_the_figure_says_when_it_is_not_known(verdict: Verdict, shown: str) -> None:
    assert count_lost_commits(verdict) == shown


def test_a_row_says_what_was_served_instead(tmp_path: Path) -> None:
    page = render(build(as_record(tmp_path, Manifest(run_id="run")), _verdict()))
    row = page[page.index('<tr><td class="m">g</td>') :].partition("</tr>")[0]
    assert re.findall(r">([^<\s]+)</td>", row)[:5] == ["g", "t-0", "1", "20", "10"]


@pytest.mark.parametrize(("offset", "told"), [(9, False), (10, True), (19, True), (20, False)])
def test_a_record_that_the_group_may_read_again_says_so(tmp_path: Path, offset: int, told: bool) -> None:
    record = RecordBuilder().acked(1, at=offset).write(tmp_path / "run")
    write_verdict(RecordFolder(record), _verdict())
    texts = [one.text for one in explain(as_record(record), subject_of_value(as_record(record), 1)).reasons]
    says = "The group g had committed offset 20, and its coordinator served 10 later (last-replica-standing)"
    assert any(text.startswith(says) for text in texts) == told
