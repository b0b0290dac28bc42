"""The pytest plugin on a stand-in for its runner: markers, fixtures, outcomes, reports."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from xml.etree import ElementTree

import pytest
import runner_contract
from checkout import ROOT
from fake_runner import FakeRunner
from plugin_project import Project, project

from ebbtide.pytest_plugin.settings import Settings
from ebbtide.scenario.steps.table import help_of_kind

__all__ = ["project"]
pytest_plugins = "pytester"


def _scenario(name: str, more: str = "", body: str = "pass", arguments: str = "") -> str:
    return f"@pytest.mark.scenario({name!r}, kafka='4.3.1')\n{more}\ndef test_it({arguments}):\n    {body}\n"


def test_a_scenario_that_ends_as_predicted_passes_and_gives_its_record(project: Project) -> None:
    body = "assert (run_record.outcome, run_record.kafka, run_record.seed) == ('as-predicted', '4.3.1', 7)"
    result = project.run(_scenario("holds", body=body, arguments="run_record"), "--ebbtide-seed", "7")
    result.assert_outcomes(passed=1)
    result.stdout.fnmatch_lines(["ebbtide *: Kafka as marked, seed 7, runtime auto, records in runs", "*still open: 0"])


def test_the_header_fits_a_terminal_of_80_columns(project: Project, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    project.runner(f"{{'docker': {'no daemon answers at this address ' * 3!r}}}")
    result = project.run("@pytest.mark.needs('docker')\ndef test_it(): pass", f"--ebbtide-runs={'a-folder/' * 4}")
    lines = result.stdout.str().splitlines()
    said = lines[: next(at for at, line in enumerate(lines) if line.startswith("test_"))]
    assert any(line.startswith("ebbtide: not possible on this host: the docker") for line in said)
    assert [line for line in said if len(line) > 80 and not line.startswith("rootdir:")] == []


def test_a_contradiction_fails_with_cause_first_lost_offset_and_the_line_to_replay_it(project: Project) -> None:
    result = project.run(_scenario("loses"))
    result.assert_outcomes(failed=1)
    result.stdout.fnmatch_lines(
        [
            "contradicted: 12 committed records of t-0 are lost",
            "  lost:   12 committed of t-0, first at offset 3, last at 14; cause: last-replica-standing, "
            "by the election of broker 2, leader epoch 2",
            "  record: */runs/run-*",
            "  next:   ebbtide explain */runs/run-*    (its first lost record, step by step)",
            "  again:  ebbtide replay */runs/run-*",
        ]
    )


def test_an_inconclusive_run_is_a_failure_of_its_own_kind(project: Project) -> None:
    result = project.run(_scenario("proves-nothing"))
    result.assert_outcomes(failed=1)
    result.stdout.fnmatch_lines(["inconclusive: step 0 (kill) never fired"])
    result.stdout.no_fnmatch_line("contradicted*")


def test_a_harness_that_fails_is_an_error_whose_message_is_printed_once(project: Project) -> None:
    result = project.run(_scenario("breaks"))
    result.assert_outcomes(errors=1)
    result.stdout.fnmatch_lines(["the harness failed: no loop device", "ebbtide run breaks: exit code 3"])
    assert result.stdout.str().count("no loop device") == 1


def test_what_makes_no_sense_is_an_error_and_no_failure_of_the_harness(project: Project) -> None:
    result = project.run(_scenario("no-such-scenario"))
    result.assert_outcomes(errors=1)
    result.stdout.fnmatch_lines(["unknown scenario", "  where:   *.py:4"])
    assert result.stdout.str().count("unknown scenario") == 1


@pytest.mark.parametrize(
    ("scenario", "expected", "says"),
    [
        ("loses", "last-replica-standing", None),
        (
            "loses",
            "unclean-election",
            "contradicted: expected unclean-election, but the run shows last-replica-standing",
        ),
        ("holds", "last-replica-standing", "not violated: expected last-replica-standing, and nothing was lost or*"),
        ("proves-nothing", "last-replica-standing", "inconclusive: *"),
    ],
)
def test_an_expected_violation_passes_only_if_it_is_what_happened(
    project: Project, scenario: str, expected: str, says: str | None
) -> None:
    result = project.run(_scenario(scenario, f"@pytest.mark.expected_violation({expected!r})"))
    result.assert_outcomes(passed=int(says is None), failed=int(says is not None))
    if says is not None:
        result.stdout.fnmatch_lines([says])


def test_an_expected_violation_without_a_run_is_a_mistake(project: Project) -> None:
    result = project.run("@pytest.mark.expected_violation('unclean-election')\ndef test_it(): pass")
    result.assert_outcomes(failed=1)


def test_a_test_that_fails_by_itself_shows_the_verdict_beside(project: Project) -> None:
    result = project.run(_scenario("loses", body="assert 1 == 2"))
    result.assert_outcomes(failed=1)
    result.stdout.fnmatch_lines(["*assert 1 == 2", "*ebbtide*", "contradicted: 12 committed records*"])


def test_junit_xml_has_the_verdict_and_the_record(project: Project) -> None:
    project.run(_scenario("loses"), "--junitxml=junit.xml", "--ebbtide-seed", "7")
    properties = {
        one.get("name"): one.get("value") for one in ElementTree.parse(project.folder / "junit.xml").iter("property")
    }
    assert Path(str(properties.pop("ebbtide_record"))).parent == project.folder / "runs"
    assert properties == {
        "ebbtide_outcome": "contradicted",
        "ebbtide_kafka": "4.3.1",
        "ebbtide_seed": "7",
        "ebbtide_acked": "0",
        "ebbtide_lost": "12",
        "ebbtide_lost_committed": "12",
        "ebbtide_causes": "last-replica-standing",
        "ebbtide_oldest_lost": "?",
        "ebbtide_without_leader": "?",
        "ebbtide_without_ack": "?",
    }


def test_a_test_runs_once_on_each_release(project: Project) -> None:
    source = """
@pytest.mark.kafka(versions=["3.9.1", "4.3.1"])
@pytest.mark.scenario("holds")
def test_both(run_record, kafka_version):
    assert run_record.kafka == kafka_version

@pytest.mark.kafka("3.9.1")
def test_one(kafka_version):
    assert kafka_version == "3.9.1"

def test_any(kafka_version):
    assert kafka_version == "4.0.2"
"""
    result = project.run(source, "-v", "--ebbtide-kafka", "4.0.2")
    result.assert_outcomes(passed=4)
    result.stdout.fnmatch_lines(["*test_both?3.9.1? PASSED*"])
    result.stdout.fnmatch_lines(["asked: ?'holds on 3.9.1', 'holds on 4.3.1'*"])


def test_a_scenario_runs_on_its_own_releases_where_nothing_names_one(project: Project) -> None:
    result = project.run("@pytest.mark.scenario('last-replica-standing')\ndef test_it(): pass", "--collect-only", "-q")
    result.stdout.fnmatch_lines(["*::test_it?3.9.1?", "*::test_it?4.3.1?"])


def test_a_need_that_this_host_lacks_skips_with_the_reason(project: Project) -> None:
    project.runner("{'docker': 'no daemon answers'}")
    result = project.run("@pytest.mark.needs('docker', 'java')\ndef test_it(): assert False")
    result.assert_outcomes(skipped=1)
    result.stdout.fnmatch_lines(
        [
            "ebbtide: not possible on this host: the docker runtime (docker: no daemon answers)",
            "SKIPPED ?1? test_*.py:*needs docker: no daemon*",
        ]
    )


def test_what_is_required_is_an_error_and_no_skip(project: Project) -> None:
    project.runner("{'docker': 'no daemon answers'}")
    result = project.run("@pytest.mark.needs('docker')\ndef test_it(): pass", "--ebbtide-require")
    result.assert_outcomes(errors=1)
    result.stdout.fnmatch_lines(["*needs docker: no daemon answers (a failure*"])


_CHAOS = """
@pytest.mark.kafka("4.3.1")
{more}
def test_it(chaos, topic):
    chaos.wait(acked=10)
    {body}
"""


def test_chaos_that_loses_nothing_passes(project: Project) -> None:
    body = "assert chaos.kill(leader(f'{topic}-0')).proof == {'probe': 'ok'}; assert topic == 't'"
    result = project.run(_CHAOS.format(more="", body=body))
    result.assert_outcomes(passed=1)
    result.stdout.fnmatch_lines(["*still open: 0"])


def test_chaos_that_loses_fails_after_the_test_has_passed(project: Project) -> None:
    result = project.run(_CHAOS.format(more="", body="chaos.power_loss(leader('t-0'))"))
    result.assert_outcomes(failed=1)
    result.stdout.fnmatch_lines(["contradicted: 12 committed*", "*still open: 0"])


def test_a_step_without_proof_ends_the_test_as_inconclusive(project: Project) -> None:
    project.runner("fails=('kill',)")
    result = project.run(_CHAOS.format(more="", body="chaos.kill(broker(1))"))
    result.assert_outcomes(failed=1)
    result.stdout.fnmatch_lines(
        [
            "*inconclusive: step 1 (kill) has no proof that it took effect: waited for nothing",
            f"E *next:    {help_of_kind('kill')}",
        ]
    )


@pytest.mark.parametrize(
    ("body", "says"),
    [
        ("chaos.powerloss(broker(1))", "*has no 'powerloss'. Did you mean 'power_loss'?"),
        ("chaos.kill(broker(1), broker(2))", "*kill takes one target*"),
        ("chaos.set_config('t', 'min.insync.replicas', 1)", "*set-config takes its values by keyword*"),
        ("chaos.delete_topic('t')", "*by keyword: topic, expect_error, name, trigger, deadline_s, optional*"),
        ("chaos.fire('kil', broker(1))", "*next: * ebbtide cluster fault --help * (lists the kinds of steps)"),
        ("chaos.wait()", "*got: * nothing"),
        ("chaos.wait(5)", "*allowed: wait(acked=1000), or wait(after='5s') for a time*"),
        ("chaos.partition([broker(1)], [broker(2)], grups=1)", "*unknown key*"),
        ("chaos.kill(broker(9))", "*no broker of this id*"),
    ],
)
def test_a_step_that_makes_no_sense_says_so(project: Project, body: str, says: str) -> None:
    result = project.run(_CHAOS.format(more="", body=body))
    result.assert_outcomes(failed=1)
    result.stdout.fnmatch_lines([says])
    # Where the test asked for it is shown, and no line of Ebbtide's own.
    result.stdout.no_fnmatch_line("*ebbtide/pytest_plugin/*")
    result.stdout.no_fnmatch_line("*harness/*")


def test_the_chaos_marker_is_part_of_a_scenario(project: Project) -> None:
    more = (
        "@pytest.mark.chaos(topics={'orders': {'partitions': 3}}, producers=[{'id': 1, 'topic': 'orders', 'count': 9}]"
    )
    result = project.run(_CHAOS.format(more=f"{more}, consumers=[])", body="assert topic == 'orders'"))
    result.assert_outcomes(passed=1)


def test_tests_of_one_release_share_a_cluster_and_have_topics_of_their_own(project: Project) -> None:
    source = """
seen = []

def test_first(kafka_cluster, topic):
    assert kafka_cluster.made == [topic]
    seen.append((kafka_cluster, topic))

def test_second(kafka_cluster, topic):
    assert kafka_cluster.made == [topic]
    assert kafka_cluster is seen[0][0] and topic != seen[0][1]
    kafka_cluster.power_loss(broker(1))
"""
    result = project.run(source)
    result.assert_outcomes(passed=2)
    result.stdout.fnmatch_lines(["*still open: 0"])


@pytest.mark.parametrize(
    "source",
    [
        "def test_{n}(chaos): chaos.power_loss(broker(1))",
        "@pytest.mark.scenario('loses', kafka='4.3.1')\ndef test_{n}(): pass",
        "def test_{n}(kafka_cluster): assert False",
    ],
)
def test_the_cluster_of_the_first_test_that_fails_is_left_up(project: Project, source: str) -> None:
    result = project.run("\n".join(source.replace("{n}", str(n)) for n in (1, 2)), "--ebbtide-keep-cluster")
    result.assert_outcomes(failed=2)
    result.stdout.fnmatch_lines(["ebbtide: to stop it: ebbtide cluster down pytest-*", "*still open: 1"])


@pytest.mark.parametrize(
    "source",
    [
        "def test_it(chaos): pass",
        "def test_it(kafka_cluster): pass",
        "@pytest.mark.scenario('holds', kafka='4.3.1')\ndef test_it(): pass",
    ],
)
def test_a_cluster_that_does_not_end_is_the_harness_failing(project: Project, source: str) -> None:
    project.runner("stuck=True")
    result = project.run(source, "--ebbtide-keep-cluster")
    result.assert_outcomes(passed=1, errors=1)
    result.stdout.fnmatch_lines(["the harness failed: waited 120 s for the daemon of pytest-* to end; *"])


def test_loading_the_plugin_loads_nothing_of_ebbtide_and_no_heavy_library(tmp_path: Path) -> None:
    (tmp_path / "test_nothing.py").write_text("def test_nothing(): pass")
    script = (
        "import sys, pytest\n"
        "assert pytest.main(['-q', '-p', 'ebbtide.pytest_plugin.plugin', 'test_nothing.py']) == 0\n"
        "print(*{name.split('.')[0] for name in sys.modules}, file=sys.stderr)"
    )
    done = subprocess.run(
        [sys.executable, "-c", script],
        capture_output=True,
        text=True,
        check=True,
        cwd=tmp_path,
        env={"PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1", "PYTHONPATH": str(ROOT)},
    )
    heavy = {"cluster", "harness", "analysis", "faults", "workloads"}
    heavy |= {"pyspark", "docker", "pyarrow", "kafka", "msgspec", "rich"}
    assert heavy.isdisjoint(done.stderr.split())


def test_the_stand_in_keeps_the_contract_of_the_runner(tmp_path: Path) -> None:
    settings = Settings(runs=tmp_path / "runs", seed=3, runtime="local", kafka=None, require=False, keep_cluster=False)
    runner = FakeRunner()
    runner_contract.abilities_have_names_and_reasons(runner)
    runner_contract.an_unknown_scenario_is_a_mistake(runner, settings)
    runner_contract.an_unknown_release_is_a_mistake(runner, "9.9.9")
    record = runner_contract.a_chaos_run_is_judged_with_its_steps(runner, settings)
    runner_contract.a_chaos_run_can_be_replayed(runner, settings, record)
    assert runner.open == []


@pytest.mark.parametrize(
    "options",
    [[], ["-v"], ["-q"], ["-s"], ["-p", "xdist", "-n", "1"], ["-p", "xdist", "-n", "1", "-v"]],
    ids=["captured", "with -v", "with -q", "with -s", "in a worker", "in a worker with -v"],
)
def test_a_line_of_progress_reaches_the_user_at_once_although_output_is_captured(
    project: Project, options: list[str]
) -> None:
    source = """
from ebbtide.pytest_plugin.plugin import PLUGIN

def test_fast():
    pass

def test_slow(request):
    print("of a test")
    request.config.stash[PLUGIN].say("judging for 10 s")
"""
    done = project.run(source, *options, in_process=False)
    done.assert_outcomes(passed=2)
    lines = done.outlines + done.errlines
    assert [line for line in lines if "judging" in line] == ["ebbtide: judging for 10 s"]
    assert any(line.endswith("of a test") for line in lines) == ("-s" in options)


@pytest.mark.parametrize(
    "slip",
    ['chaos.power_los(leader("t-0"))', 'chaos.kill("leadr(t-0)")', 'chaos.kill(leeder("t-0"))', "import nothing_"],
)
def test_a_slip_in_a_test_costs_no_judging_and_its_cluster_ends_at_once(project: Project, slip: str) -> None:
    done = project.run(f"def test_it(chaos):\n    {slip}\n")
    done.assert_outcomes(failed=1)
    done.stdout.fnmatch_lines(["*the test itself is wrong, so its run was not judged*"])
    assert "still open: 0" in done.stdout.str()
    assert not (project.folder / "runs").exists()


def test_a_failed_assertion_and_a_refusal_by_the_clusters_state_are_judged(project: Project) -> None:
    source = """
from ebbtide.daemon.messages import ImpossibleNow

def test_assertion(chaos):
    assert False

def test_state(chaos):
    raise ImpossibleNow("nothing to start: broker-1 is running")
"""
    done = project.run(source)
    done.assert_outcomes(failed=2)
    assert "was not judged" not in done.stdout.str()
    assert len([*(project.folder / "runs").iterdir()]) == 2
