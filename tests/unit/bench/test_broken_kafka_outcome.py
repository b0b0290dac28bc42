"""What became of a planted bug is said by the verdict and by the lines that the agent wrote."""

from __future__ import annotations

import gzip
from pathlib import Path

import msgspec

from bench.broken_kafka.__main__ import runs_of, table
from bench.broken_kafka.agent import CONTROL, argument_of
from bench.broken_kafka.bugs import read_bugs
from bench.broken_kafka.kept import Row, best_of
from bench.broken_kafka.outcome import Caught, classify, count_of_acts, failures_in, seen_by
from ebbtide.record.verdict import Outcome, PropertyResult, Verdict

VIOLATED = "KIP-966 is violated: leader-in-isr (1 case, first: t-0, metadata offset 43)"
UNEXPLAINED = "2,000 committed records of t-0 lost against the protocol: broker 3 was elected"
BROKEN = "predicted no loss of committed records, seen 2,000 lost"
RUNS: tuple[tuple[Caught, str], ...] = (("clean", "2"), ("clause", "11"))
KNOWN = "known of this release: KAFKA-15489"


def verdict(outcome: Outcome, *why: str, violated: tuple[str, ...] = ()) -> Verdict:
    properties = [PropertyResult(name=name, kip="KIP-966", status="violated") for name in violated]
    return Verdict(run_id="r", outcome=outcome, why=list(why), properties=properties)


def row(bug: str, caught: Caught, scenario: str = "healthy") -> Row:
    return Row(bug=bug, scenario=scenario, acted=1, caught=caught, seen_by="", commit="c")


def test_a_violated_clause_catches_a_bug_and_so_does_a_loss_against_the_protocol() -> None:
    assert classify(verdict("contradicted", VIOLATED, BROKEN), acts=1) == "clause"
    assert classify(verdict("contradicted", UNEXPLAINED), acts=1) == "clause"


def test_a_broken_prediction_alone_is_no_clause() -> None:
    assert classify(verdict("contradicted", BROKEN), acts=1) == "prediction"


def test_an_inconclusive_run_and_a_run_without_a_verdict_are_half() -> None:
    assert classify(verdict("inconclusive", "step 2 (wait) never fired"), acts=1) == "half"
    assert classify(None, acts=1) == "half"


def test_a_run_as_predicted_missed_the_bug_and_so_did_one_that_shows_a_known_bug_only() -> None:
    assert classify(verdict("as-predicted"), acts=1) == "missed"
    assert classify(verdict("contradicted", VIOLATED, KNOWN), acts=1) == "missed"


def test_a_bug_that_did_not_act_is_not_caught_whatever_the_verdict() -> None:
    assert classify(verdict("contradicted", VIOLATED), acts=0) == "did not act"


def test_the_control_never_acts_and_may_be_accused_all_the_same() -> None:
    assert classify(verdict("contradicted", VIOLATED), acts=0, is_control=True) == "clause"
    assert classify(verdict("as-predicted"), acts=0, is_control=True) == "clean"


def test_the_worst_run_of_the_control_counts_and_the_loads_of_all_are_kept() -> None:
    clean, accused = (msgspec.structs.replace(row(CONTROL, caught), load=load) for caught, load in RUNS)
    for first, then in ((clean, accused), (accused, clean)):
        both = then.after(first)
        assert (both.caught, both.load) == ("clause", f"{first.load} {then.load}")


def test_the_clauses_are_named_and_else_the_first_reason() -> None:
    assert seen_by(verdict("contradicted", VIOLATED, violated=("leader-in-isr",))) == "leader-in-isr"
    assert seen_by(verdict("contradicted", UNEXPLAINED)) == UNEXPLAINED
    assert seen_by(verdict("inconclusive", "step 2 (wait) never fired")) == "step 2 (wait) never fired"
    assert (seen_by(verdict("as-predicted")), seen_by(None)) == ("", "no verdict")


def test_acts_are_counted_over_nodes_and_over_the_starts_of_a_node(tmp_path: Path) -> None:
    logs = tmp_path / "logs"
    logs.mkdir()
    for node, counts in (("broker-1", (1, 10, 1, 10)), ("broker-2", (1,)), ("controller-100", ())):
        lines = ["PLANTED-BUG b is planted", *(f"PLANTED-BUG b acted {count}" for count in counts)]
        with gzip.open(logs / f"{node}.log.gz", "wt") as log:
            log.write("\n".join(["Picked up JAVA_TOOL_OPTIONS: -javaagent:a.jar=b", *lines, ""]))
    assert count_of_acts(tmp_path) == 21
    assert failures_in(tmp_path) == []


def test_a_failure_of_the_agent_is_found(tmp_path: Path) -> None:
    (tmp_path / "logs").mkdir()
    with gzip.open(tmp_path / "logs" / "broker-1.log.gz", "wt") as log:
        log.write("PLANTED-BUG b failed: no field\n")
    assert failures_in(tmp_path) == ["PLANTED-BUG b failed: no field"]


def test_a_bug_counts_by_the_best_of_its_scenarios() -> None:
    rows = [row("a", "missed"), row("a", "clause", "rolling-kill"), row("b", "did not act"), row("b", "half")]
    assert best_of(rows) == {"a": "clause", "b": "half"}


def test_the_control_runs_over_each_scenario_once() -> None:
    bugs = read_bugs()
    control = runs_of([CONTROL], bugs)
    assert len(control) == len(set(control)) == len({one for bug in bugs.values() for one in bug.scenarios})
    assert argument_of(None) == CONTROL


def test_the_table_fits_eighty_columns() -> None:
    rows = [row(name, "did not act", scenario) for name, scenario in runs_of([], read_bugs())]
    assert max(map(len, table(rows))) <= 80
