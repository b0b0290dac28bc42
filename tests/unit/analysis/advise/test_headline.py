"""What is said first about a cluster: what loses, what a change makes of it, and what could not be asked."""

from __future__ import annotations

import msgspec
import pytest
from made_snapshots import ELR, brokers, cluster, topic, without_answers
from markupsafe import escape

from analysis.advise.advice import Advice, advise
from analysis.advise.advice_json import advice_output
from analysis.advise.assumption import parse_assumption
from analysis.advise.headline import MARK_MEANS, headline
from analysis.advise.page import render_advice
from harness.cli.advise_table import print_advice


@pytest.fixture(scope="module")
def changed() -> Advice:
    return advise(
        cluster("3.9", topic("orders", 3, 2), topic("logs", 1, 1)), assumed=parse_assumption(f"kafka=4.3.1,{ELR}=1")
    )


def test_danger_comes_before_losses() -> None:
    single = advise(cluster("4.3", topic("logs", 3, 2, partition={"isr": (1, 2)})))
    assert "<h1>1 partition in danger when the cluster was read</h1>" in render_advice(single)


def test_a_cluster_without_danger_is_never_called_safe(capsys: pytest.CaptureFixture[str]) -> None:
    losing = cluster("3.9", topic("orders", 3, 2))
    for snapshot, says in (
        (losing, "events would lose records with acks=all"),
        (cluster("3.9", topic("wide", 8, 4)), "No event is known to lose records with acks=all, but "),
        (msgspec.structs.replace(losing, topics=()), "No topic is visible"),
    ):
        advice = advise(snapshot)
        print_advice(advice)
        first = headline(advice)
        assert says in first.text
        for shown in (" ".join(capsys.readouterr().out.split()), render_advice(advice)):
            assert all(one in shown for one in (first.text, first.when_read or "", *first.more))
            assert "in danger" not in shown


def test_an_assumption_does_not_change_how_many_events_lose_today(changed: Advice) -> None:
    today = headline(advise(changed.snapshot))
    assert today.text == headline(changed).text == "7 events would lose records with acks=all"
    assert today.more == ("Counted are the lines of all tables with `loses` under acks=all.",)


def test_the_count_is_that_of_the_lines_without_a_mark(changed: Advice, capsys: pytest.CaptureFixture[str]) -> None:
    print_advice(changed)
    shown = capsys.readouterr().out.splitlines()
    rows = [line for line in shown if line.endswith(("/loses", "/survives"))]
    counted = [row for row in rows if row.split()[-2] == "loses" and " * " not in row]
    assert len(counted) == 7
    assert len([row for row in rows if " * " in row]) == 5
    assert "2 brokers lose power together *</td>" in render_advice(changed)
    assert f"*: {MARK_MEANS}" in shown
    assert f"<dt><b>*</b></dt><dd>{escape(MARK_MEANS)}</dd>" in render_advice(changed)
    (_, orders) = advice_output(changed).groups
    assert next(one.key for one in orders.lines if one.only_for_after) == "power-2-worst"


def test_a_mark_without_a_line_is_not_explained(changed: Advice, capsys: pytest.CaptureFixture[str]) -> None:
    today = advise(changed.snapshot)
    print_advice(today)
    assert not [line for line in capsys.readouterr().out.splitlines() if line.startswith("*")]
    assert "<dt><b>*</b></dt>" not in render_advice(today)


def test_answers_that_the_change_takes_away_are_counted() -> None:
    snapshot = cluster("3.9", topic("orders", 3, 2), brokers=brokers(5, 21))
    wider = advise(snapshot, assumed=parse_assumption("replication.factor=5"), states_max=1000)
    says = [
        (line.today.acks_all.says, line.after.acks_all.says) for line in wider.groups[0].lines if line.after is not None
    ]
    assert sum(today != "unknown" and after == "unknown" for today, after in says) == 5
    assert "For 5 events that the model answers today, it has no answer after the change." in headline(wider).more


def test_the_change_is_summed_up_for_the_same_events(changed: Advice) -> None:
    assert headline(changed).more[1:] == (
        "Of the events that lose records today, the change saves 2 of 7.",
        "Of the events that lose none today, the change makes 2 lose records.",
    )


def test_a_broker_without_an_answer_stands_in_the_headline(capsys: pytest.CaptureFixture[str]) -> None:
    for snapshot, says in (
        (cluster("3.9", topic("orders", 3, 2)), "3 events would lose records with acks=all"),
        (
            cluster("4.3", topic("a", 3, 2, partition={"isr": (1, 2)})),
            "1 partition in danger when the cluster was read",
        ),
        (cluster("3.9"), "No topic is visible"),
    ):
        advice = advise(without_answers(snapshot, 2))
        print_advice(advice)
        first = headline(advice)
        assert first.text == f"{says}; broker 2 could not be asked"
        shown = capsys.readouterr().out
        assert first.text in shown.splitlines()
        assert "more events lose records" in " ".join(shown.split())
        assert advice_output(advice).headline == first.text
        assert advice_output(advice).brokers_not_asked == (2,)


def test_no_answer_is_a_good_one_while_a_broker_was_not_asked() -> None:
    snapshot = cluster("4.3", topic("safe", 3, 2))
    advice = advise(snapshot)
    lines = tuple(one for one in advice.groups[0].lines if one.today.acks_all.says == "survives")
    good = msgspec.structs.replace(advice, groups=(msgspec.structs.replace(advice.groups[0], lines=lines),))
    assert headline(good).look == "as-predicted"
    silent = msgspec.structs.replace(good, snapshot=without_answers(snapshot, 1, 3))
    assert headline(silent).look == "inconclusive"
    assert headline(silent).text.endswith("; brokers 1 and 3 could not be asked")


def test_where_no_broker_was_asked_the_headline_names_no_others() -> None:
    snapshot = cluster("3.9", topic("orders", 3, 2), metadata_versions=(4, 21))
    first = headline(advise(without_answers(snapshot, 1, 2, 3)))
    assert first.text.endswith("; brokers 1, 2 and 3 could not be asked")
    assert first.more[-1].endswith("If they are weaker than what the advice takes, more events lose records.")


def test_many_brokers_without_an_answer_are_counted() -> None:
    many = cluster("3.9", topic("orders", 3, 2), brokers=brokers(9, 21))
    assert (
        "; brokers 1, 2, 3, 4, 5 and 3 more could not be asked"
        in headline(advise(without_answers(many, *range(1, 9)))).text
    )


def test_another_part_that_could_not_be_read_stands_in_the_headline() -> None:
    note = "reassignments under way are unknown: the right is missing (DESCRIBE on the cluster)"
    first = headline(advise(cluster("3.9", topic("orders", 3, 2), notes=(note,))))
    assert first.text.endswith("; reassignments under way are unknown")
    assert not any("configs" in one for one in first.more)


def test_a_long_note_is_cut_in_the_headline() -> None:
    note = f"the topics {', '.join(f'orders-{one}' for one in range(50))} could not be read"
    first = headline(advise(cluster("3.9", topic("orders", 3, 2), notes=(note,))))
    clause = first.text.rpartition("; ")[2]
    assert clause.startswith("the topics orders-0, ")
    assert clause.endswith("...")
    assert len(clause) <= 80
