"""The report of a run: what it shows, that it stands alone, and that it escapes what others named."""

from __future__ import annotations

import re
import shutil
from html.parser import HTMLParser
from pathlib import Path

import msgspec
import pytest
from checkout import DATA
from judge_records import Story, by_name, last_replica_standing
from records import as_record

from analysis.report.html import render, write_report
from analysis.report.model import ReportModel, build
from analysis.report.summary import judged_run, summary_lines, summary_text
from analysis.sentences import words
from analysis.sentences.protocol import as_one_line, protocol_row
from analysis.sentences.words import count_lost_acks_0, headline
from ebbtide.record.folder import RecordFolder
from ebbtide.record.predictions import prediction_of
from ebbtide.record.properties import CHECKER_FAILED, needed_unknown_clauses
from ebbtide.record.steps import StepEntry
from ebbtide.record.verdict import Counts, PropertyResult, PropertyStatus, Verdict, read_verdict
from ebbtide.rules.table import CLAUSES, TRANSITIONS
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


def test_the_table_and_the_report_say_the_same_of_how_long_a_run_took(tmp_path: Path) -> None:
    story = Story(tmp_path)
    start_ns = story.manifest.start_ns or 0
    story.change(
        start_ns=start_ns,
        end_ns=start_ns + 14_300_000_000,
        timings_s={"prepare": 1.5, "start cluster": 2.0, "stop": 0.1, "steps": 9.0},
    )
    story.state(1)
    verdict = story.judge()
    report, lines = report_of(story, verdict), dict(summary_lines(judged_run(as_record(tmp_path), verdict)))
    assert dict(report.figures)["took"] == lines["took"] == "14.3 s"
    assert dict(report.configuration)["timings"] == "prepare 1.5 s, start cluster 2.0 s, stop 0.1 s, steps 9.0 s"
    assert lines["longest phases"] == "prepare 1.5 s, start cluster 2.0 s, steps 9.0 s"


@pytest.mark.parametrize(
    ("facts", "shown"),
    [({}, "-"), ({"acked-with-acks-0": 1000, "acks-0-gone": 4}, "4 of 1,000"), ({"acked-with-acks-0": 10}, "? of 10")],
)
def test_what_is_gone_of_acks_0_is_shown_as_a_part_of_what_was_sent(facts: dict[str, int], shown: str) -> None:
    assert count_lost_acks_0(Verdict(run_id="r", outcome="as-predicted", coverage=facts)) == shown


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


def test_a_fault_without_proof_is_shown_as_such(tmp_path: Path) -> None:
    story = Story(tmp_path)
    story.state(1)
    story.step(5, "kill", 2, proven=False)
    story.steps = [*(story.steps or []), StepEntry(index=1, step="heal", why="waited 30 s for isr")]
    unproven, never = report_of(story).steps
    assert (unproven.proven, unproven.proof) == (False, "no proof")
    assert (never.fired, never.proof) == ("never", "waited 30 s for isr")


def test_the_proof_of_a_power_loss_says_what_the_log_lost(tmp_path: Path) -> None:
    cut, power = report_of(last_replica_standing(tmp_path)).steps
    assert cut.proof == "both ways 1 | 2, 3; none of the 4 cuts lets a packet pass"
    assert power.proof == "lost bytes 4096, t-0 log end 1000 before and 0 after"


def test_a_cut_is_described_by_role_and_by_node_and_says_whether_it_is_one_way(tmp_path: Path) -> None:
    story = Story(tmp_path)
    story.step(5, "partition", 1, 2, 3, cuts=["2>1", "2>3"])
    story.step(6, "partition", 0, 1, 2, cuts=["0>1", "1>0", "2>1", "1>2"])
    assert story.steps is not None
    way, groups = story.steps
    story.steps = [
        msgspec.structs.replace(way, parameters={"from": ["leader(t-0)"], "to": ["followers(t-0)"]}),
        msgspec.structs.replace(groups, parameters={"groups": [["leader(t-0)"], ["broker(2)", "clients"]]}),
        msgspec.structs.replace(
            groups, parameters={"from": ["clients"], "to": ["broker(1)"]}, proof={}, effect_ns=None, why="no rule"
        ),
    ]
    assert [step.proof for step in report_of(story).steps] == [
        "one way from [leader(t-0)] to [followers(t-0)], by node: 2 to 1, 3; none of the 2 cuts lets a packet pass",
        "both ways between [leader(t-0)] and [broker(2), clients], by node: 1 | clients, 2; "
        "none of the 4 cuts lets a packet pass",
        "no proof: no rule (one way from [clients] to [broker(1)])",
    ]


def test_a_wait_is_said_to_have_waited_not_to_be_proven(tmp_path: Path) -> None:
    story = Story(tmp_path)
    story.step(5, "wait")
    (wait,) = report_of(story).steps
    assert (wait.effect, wait.proof) == ("waited", "its trigger came")


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


def test_long_timelines_keep_what_matters(tmp_path: Path) -> None:
    story = last_replica_standing(tmp_path)
    for second in range(300):
        story.state(40 + second, isr=[1, 2] if second % 2 else [1, 2, 3])
    (timeline,) = report_of(story).timelines
    assert len(timeline.rows) == 120
    assert timeline.omitted == 306 - 120
    assert any(row.mark == "guilty" for row in timeline.rows)


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


def test_the_report_is_written_beside_the_verdict(tmp_path: Path) -> None:
    path = write_report(RecordFolder(tmp_path), report_of(last_replica_standing(tmp_path)))
    assert path == tmp_path / "report.html"
    assert path.read_text().startswith("<!doctype html>")


TWICE = "no-duplicate-of-an-idempotent-producer"


def properties(**statuses: PropertyStatus) -> list[PropertyResult]:
    """Clauses by name with their status, all others hold."""
    by_name = {name.replace("_", "-"): status for name, status in statuses.items()}
    return [
        PropertyResult(name=one.name, kip=one.kip, status=by_name.get(one.name, "holds")) for one in CLAUSES.values()
    ]


def test_nothing_is_said_to_be_violated_while_a_needed_clause_is_unknown(tmp_path: Path) -> None:
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


def test_a_report_model_is_plain_values(tmp_path: Path) -> None:
    report = report_of(last_replica_standing(tmp_path))
    assert msgspec.json.decode(msgspec.json.encode(report), type=ReportModel) == report


_NONE_OF_20 = "none of 20 acked records is lost; of 10 sent with acks=0, which no broker answers,"


@pytest.mark.parametrize(
    ("facts", "told"),
    [
        ({}, "none of 30 acked records is lost"),
        ({"acked-with-acks-0": 10, "acks-0-gone": 4}, f"{_NONE_OF_20} 4 are gone"),
        ({"acked-with-acks-0": 10}, f"{_NONE_OF_20} it is not known how many are gone"),
    ],
)
def test_what_was_sent_with_acks_0_is_not_said_to_be_acked(facts: dict[str, int], told: str) -> None:
    counts = Counts(sends=30, acked=30)
    verdict = Verdict(run_id="r", outcome="as-predicted", why=[], counts=counts, anomalies=[], coverage=facts)
    assert headline(verdict, "4.3.1", sends=True) == f"As predicted: {told}."


def test_a_run_formatted_with_another_feature_level_is_distinguished_from_an_ordinary_run(tmp_path: Path) -> None:
    record = tmp_path / "run"
    shutil.copytree(DATA / "runs" / "last-replica-standing-4.3.1", record)
    verdict = read_verdict(RecordFolder(record))
    assert verdict is not None
    assert judged_run(as_record(record), verdict).target == "4.3.1"
    scenario, levels = record / "scenario.toml", "[cluster.features]\n"
    scenario.write_text(scenario.read_text().replace(levels, levels + '"eligible.leader.replicas.version" = 0\n'))
    assert judged_run(as_record(record), verdict).target == "4.3.1:eligible.leader.replicas.version=0"
