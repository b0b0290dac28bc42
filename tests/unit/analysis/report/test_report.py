"""The report of a run: what it says of the verdict, of commits, of clauses and of the clock, and what it loads."""

from __future__ import annotations

import re
from base64 import b64encode
from hashlib import sha256
from html.parser import HTMLParser
from pathlib import Path

import msgspec
import pytest
from judge_records import Story, by_name, last_replica_standing
from markupsafe import escape
from records import RecordBuilder, as_record

from analysis.explain.life import explain
from analysis.explain.subject import subject_of_value
from analysis.report.html import render
from analysis.report.model import ReportModel, build
from analysis.report.summary import judged_run, summary_text
from analysis.sentences import words
from analysis.sentences.protocol import as_one_line, protocol_row
from analysis.sentences.words import clause_text, clock_sentence, headline
from ebbtide.record.clock import ClockReading
from ebbtide.record.files import CLOCK_FILE, RecordFolder
from ebbtide.record.manifest import Manifest
from ebbtide.record.predictions import prediction_of
from ebbtide.record.properties import CHECKER_FAILED, needed_unknown_clauses
from ebbtide.record.steps import StepEntry
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
from ebbtide.rules.table import CLAUSES, COMMITS_KEPT, TRANSITIONS
from ebbtide.scenario.facts import FACTS
from ebbtide.scenario.model import Prediction

_VOID = {"meta", "br", "input"}


def report_of(story: Story, verdict: Verdict | None = None) -> ReportModel:
    verdict = verdict if verdict is not None else story.judge()
    return build(as_record(story.record, story.manifest), verdict)


class TagBalance(HTMLParser):
    """Fails on a tag that is closed wrongly or never."""

    def __init__(self) -> None:
        super().__init__()
        self.open: list[str] = []
        self.text = ""

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        if tag not in _VOID:
            self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        self.text += data


def test_the_report_says_the_verdict_in_a_sentence_and_marks_the_guilty_election(tmp_path: Path) -> None:
    story = last_replica_standing(tmp_path)
    story.regress(1000, 0, epochs=(0, 2), at_s=(9, 22))
    story.predict('loss = { committed = "some" }')
    report = report_of(story)
    assert report.headline == (
        "As predicted: Kafka 3.9.1 lost 1,000 of 1,000 acked records, all of them committed (last-replica-standing)."
    )
    guilty = [row for row in report.timelines[0].rows if row.mark == "guilty"]
    assert [(row.leader, row.leader_epoch) for row in guilty] == [("1", 2)]
    assert guilty[0].note == "guilty election, last-replica-standing; broker 1 elected from the ISR"
    page = render(report)
    assert '<td class="n">1,000</td><td class="n">0</td>' in page
    assert f"<td>broker 1, leader epoch 2, metadata offset {guilty[0].metadata_offset}</td>" in page


def test_a_clause_that_holds_beside_a_loss_says_that_the_loss_is_allowed(tmp_path: Path) -> None:
    story = last_replica_standing(tmp_path)
    story.regress(1000, 0, epochs=(0, 2), at_s=(9, 22))
    story.hw(2, 1, 0, 1000)
    verdict = story.judge()
    report = report_of(story, verdict)
    glosses = {one.name: words.gloss(verdict, one) for one in verdict.properties if words.gloss(verdict, one)}
    assert glosses == {
        "no-committed-loss-unless-allowed": "every committed loss is one that the specification allows on this release",
        "no-hw-regression-unless-allowed": "every HW that went back did so as the specification allows on this release",
    }
    assert all(f"In this run: {gloss}." in render(report) for gloss in glosses.values())
    violated = [msgspec.structs.replace(one, status="violated") for one in verdict.properties]
    for changes in ({"losses": [], "regressions": []}, {"properties": violated}):
        assert "In this run:" not in render(report_of(story, msgspec.structs.replace(verdict, **changes)))


def test_the_page_is_one_well_formed_file_without_external_resources(tmp_path: Path) -> None:
    page = render(report_of(last_replica_standing(tmp_path)))
    parser = TagBalance()
    parser.feed(page)
    assert parser.open == []
    assert not re.search(r"src=|<link|@import|url\((?!#)", page)
    assert "prefers-color-scheme: dark" in page
    assert "@media print" in page


def test_names_from_outside_are_escaped(tmp_path: Path) -> None:
    story = last_replica_standing(tmp_path)
    story.change(scenario="<script>alert(1)</script>", host={"os": "<b>&"})
    page = render(report_of(story))
    assert "<script>alert" not in page
    assert "&lt;script&gt;alert(1)&lt;/script&gt;" in page
    assert "&lt;b&gt;&amp;" in page


def test_what_a_record_without_sends_or_a_run_that_ended_early_cannot_know_is_a_question_mark(tmp_path: Path) -> None:
    story = Story(tmp_path)
    story.state(1)
    story.hw(2, 1, 0, 1000)
    story.counts = Counts(polls=5)
    story.unknown["lost"] = "sends is missing"
    story.change(status="interrupted")
    report = report_of(story)
    assert {name for name, shown in report.figures if shown == "?"} >= {
        "sent",
        "acked",
        "lost, committed",
        "answers with a lower HW",
    }
    assert report.headline == "Inconclusive: it is not known how many records were acked or lost."
    verdict = story.judge()
    assert words.no_regressions(verdict) == "Not known."
    lines = summary_text([judged_run(as_record(tmp_path), verdict)], 100).splitlines()
    shown = {line[:21].strip(): line[21:].strip() for line in lines}
    assert (shown["acked"], shown["HW went back"]) == ("?", "?")


def test_a_record_without_any_table_still_has_a_report(tmp_path: Path) -> None:
    story = Story(tmp_path)
    story.steps = None
    page = render(report_of(story))
    assert "The metadata timeline is missing." in page


def test_a_loss_that_could_not_be_attributed_is_still_counted(tmp_path: Path) -> None:
    story = last_replica_standing(tmp_path)
    verdict = story.judge(missing=("partitions",))
    report = report_of(story, verdict)
    assert ("lost, committed", "at least 1,000") in report.figures
    assert words.no_losses(verdict) == "At least 1,000 records were lost by a cause that is not known."


def test_losses_that_could_not_be_counted_are_a_question_mark_not_a_zero(tmp_path: Path) -> None:
    story = Story(tmp_path)
    story.state(1)
    story.unknown["lost"] = "there was no final read"
    report = report_of(story)
    assert ("lost, committed", "?") in report.figures
    assert "it is not known" in report.headline


TWICE = "no-duplicate-of-an-idempotent-producer"


def properties(**statuses: PropertyStatus) -> list[PropertyResult]:
    """Clauses by name with their status, all others hold."""
    by_name = {name.replace("_", "-"): status for name, status in statuses.items()}
    return [
        PropertyResult(name=one.name, kip=one.kip, status=by_name.get(one.name, "holds")) for one in CLAUSES.values()
    ]


def test_nothing_is_said_to_be_violated_while_a_needed_clause_is_unknown() -> None:
    silent = Prediction(kafka=">=3", clause="c")
    speaks = msgspec.structs.replace(silent, hw_regression="none")
    verdict = Verdict(run_id="r", outcome="inconclusive")

    def describe_row(prediction: Prediction | None = silent, **statuses: PropertyStatus) -> str:
        return protocol_row(msgspec.structs.replace(verdict, properties=properties(**statuses)), prediction)

    assert describe_row() == "nothing violated"
    assert describe_row(**{TWICE.replace("-", "_"): "unknown"}) == f"cannot tell:\n{TWICE}"
    # Those that a run may leave open, as docs/clauses.md lists them.
    assert describe_row(every_transition_is_one_the_protocol_allows="unknown") == "nothing violated"
    assert (
        describe_row(hw_frozen_below_min_isr="unknown")
        == describe_row(None, hw_frozen_below_min_isr="unknown")
        == "nothing violated"
    )
    assert describe_row(speaks, hw_frozen_below_min_isr="unknown") == "cannot tell:\nhw-frozen-below-min-isr"
    threw = PropertyResult(
        name=TRANSITIONS, kip="-", status="unknown", evidence=[{"why": f"{CHECKER_FAILED}KeyError: 1"}]
    )
    assert protocol_row(msgspec.structs.replace(verdict, properties=[threw]), None) == f"cannot tell:\n{TRANSITIONS}"
    both = describe_row(no_aborted_read="violated", leader_in_isr="unknown")
    assert both == "violated:\nno-aborted-read\ncannot tell:\nleader-in-isr"
    assert as_one_line(both) == "violated: no-aborted-read; cannot tell: leader-in-isr"


def test_a_clause_on_the_hw_is_needed_in_the_report_where_it_is_needed_for_the_outcome(tmp_path: Path) -> None:
    story = last_replica_standing(tmp_path)
    story.predict('loss = { committed = "some", cause = "last-replica-standing" }')
    story.regress(1000, 0, epochs=(0, 2), at_s=(9, 22))
    story.unknown["hw-regression"] = "the clock was set back"
    verdict = story.judge()
    assert [one.cause for one in verdict.regressions] == ["last-replica-standing"]
    assert by_name(verdict)["no-hw-regression-unless-allowed"] == "unknown"
    assert verdict.outcome == "as-predicted", verdict.why
    assert needed_unknown_clauses(verdict, prediction_of(RecordFolder(tmp_path), story.manifest)) == []
    # The leader of epoch 1 was never elected in this record: nobody knows why its HW was lower.
    story.regress(1000, 999, epochs=(0, 1), at_s=(9, 11))
    verdict = story.judge()
    assert len(verdict.regressions) == 1
    assert verdict.outcome == "inconclusive"
    assert needed_unknown_clauses(verdict, prediction_of(RecordFolder(tmp_path), story.manifest)) == [
        "no-hw-regression-unless-allowed"
    ]


@pytest.mark.parametrize("status", ["holds", "unknown"])
def test_the_table_and_the_page_say_the_same_of_the_protocol(tmp_path: Path, status: PropertyStatus) -> None:
    story = Story(tmp_path)
    story.state(1)
    story.predict("")
    verdict = story.judge()
    clauses = [msgspec.structs.replace(one, status=status) if one.name == TWICE else one for one in verdict.properties]
    verdict = msgspec.structs.replace(verdict, properties=clauses)
    said = "nothing violated" if status == "holds" else f"cannot tell: {TWICE}"
    assert ("protocol", said) in report_of(story, verdict).figures
    assert re.search(
        rf"^protocol +{said}$", summary_text([judged_run(as_record(tmp_path), verdict)], 100), re.MULTILINE
    )


# A report, its headline and the explanation of a record show the commits that groups did not get back.


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


@pytest.mark.parametrize(("offset", "told"), [(9, False), (10, True), (19, True), (20, False)])
def test_a_record_that_the_group_may_read_again_says_so(tmp_path: Path, offset: int, told: bool) -> None:
    record = RecordBuilder().acked(1, at=offset).write(tmp_path / "run")
    write_verdict(RecordFolder(record), _verdict())
    texts = [one.text for one in explain(as_record(record), subject_of_value(as_record(record), 1)).reasons]
    says = "The group g had committed offset 20, and its coordinator served 10 later (last-replica-standing)"
    assert any(text.startswith(says) for text in texts) == told


# The page of a run says what the run exercised, and what each clause says.


def test_the_page_says_what_each_fact_that_came_about_counts(tmp_path: Path) -> None:
    story = last_replica_standing(tmp_path)
    verdict = story.judge()
    other = {"of-another-version": 3, "other-absent": 0}
    verdict = msgspec.structs.replace(verdict, coverage=verdict.coverage | other)
    page = render(build(as_record(story.record, story.manifest), verdict))
    counted = {name for name, count in verdict.coverage.items() if count}
    assert "elections" in counted
    assert set(re.findall(r'<tr><td>([^<]+)</td><td class="n">[\d,]+</td><td class="wide">', page)) == counted
    assert all(FACTS[name].counts in page for name in counted if name in FACTS)
    assert '<tr><td>of-another-version</td><td class="n">3</td><td class="wide"></td></tr>' in page
    absent = [name for name, count in verdict.coverage.items() if not count]
    assert f">{', '.join(absent)}</p>" in page


@pytest.mark.parametrize("name", CLAUSES)
def test_the_page_says_what_every_clause_says(tmp_path: Path, name: str) -> None:
    story = last_replica_standing(tmp_path)
    judged = Verdict(
        run_id="run-1", outcome="inconclusive", properties=[PropertyResult(name=name, kip="KIP", status="holds")]
    )
    text = clause_text(judged.properties[0])
    assert text
    assert "`" not in text
    assert escape(text) in render(build(as_record(story.record, story.manifest), judged))


# The page allows nothing but its own script, by its hash.


def test_the_page_loads_nothing_and_runs_its_own_script_only(tmp_path: Path) -> None:
    story = last_replica_standing(tmp_path)
    verdict = story.judge()
    page = render(build(as_record(story.record, story.manifest), verdict))
    (script,) = re.findall(r"<script>(.*?)</script>", page, re.DOTALL)
    allowed = b64encode(sha256(script.encode()).digest()).decode()
    assert f"default-src 'none'; style-src 'unsafe-inline'; script-src 'sha256-{allowed}'\"" in page


# The page says whether the clock was watched, and how it was set.


S = 10**9


def _watched(record: Path, *leads_s: float) -> Path:
    readings = [ClockReading(at_ns=(100 + at) * S, wall_ns=int((100 + at + by) * S)) for at, by in enumerate(leads_s)]
    (record / CLOCK_FILE).write_bytes(b"".join(msgspec.json.encode(one) + b"\n" for one in readings))
    return record


@pytest.mark.parametrize(
    ("leads_s", "said"),
    [
        ((0, 0), "watched: nobody set it"),
        ((0, -3, -3), "watched: it was set once, back by up to 3.000 s; "),
        ((0, -3, 3597, 3598), "watched: it was set 3 times, forward by up to 3,600.000 s and back by up to 3.000 s; "),
    ],
)
def test_the_page_says_how_a_watched_clock_was_set(tmp_path: Path, leads_s: tuple[float, ...], said: str) -> None:
    assert clock_sentence(as_record(_watched(tmp_path, *leads_s))).startswith(said)


def test_the_page_says_that_a_clock_was_not_watched(tmp_path: Path) -> None:
    assert clock_sentence(as_record(tmp_path)).startswith("not watched: ")


# The table of faults says what its steps waited for, and what proves them, in words.


def test_triggers_and_proofs_are_in_words_and_not_in_keys(tmp_path: Path) -> None:
    story = Story(tmp_path)
    story.state(1)
    triggers = ({"isr": {"partition": "t-0", "size": 1}}, {"leader_is": {"partition": "t-0", "broker": "none"}})
    proof = {"probe": "ok", "volume_down": True, "unsynced_there": False}
    story.steps = [
        StepEntry(index=at, step="kill", nodes=(2,), fired_ns=1, effect_ns=2, trigger=trigger, proof=proof)
        for at, trigger in enumerate(triggers)
    ]
    steps = build(as_record(story.record, story.manifest), story.judge()).steps
    assert [step.trigger for step in steps] == ["isr of t-0: size 1", "leader_is of t-0: broker none"]
    assert steps[0].proof == "volume down yes, unsynced there no"
