"""A rule of the user judges as the project's own do, and a wrong file is one clear error."""

from __future__ import annotations

import hashlib
from pathlib import Path

import msgspec
import pytest
from checkout import ROOT
from judge_records import NO_LOSS, Story, by_name, healthy_story
from real_records import unpack_record

from analysis.judge.rules.own import own_rules, read_own_rule
from analysis.judging.one_record import prepare_record, verdict_of
from analysis.reconcile.model import Reconciliation
from analysis.record.protocol import judged_by_variant
from analysis.record.scans import feed_table
from analysis.sentences.protocol import protocol_row
from analysis.spec import own
from analysis.spec.variants import VARIANTS
from ebbtide.errors import UsageError
from ebbtide.record.files import RecordFolder
from ebbtide.record.manifest import read_manifest
from ebbtide.record.outcomes import next_command
from ebbtide.record.verdict import Counts, Verdict

EXAMPLE = ROOT / "examples" / "rules" / "no_leader_twice_in_a_row.py"
NAME = "no-leader-twice-in-a-row"

RULE = """'Ours: none.'
from analysis.judge.rules.clause import Clause, finding

def _check(judged):
    {body}

RULE = Clause(kip="ours", check=_check{more})
"""
VARIANT = """
from analysis.spec.elr_43 import Elr43
from ebbtide.errors import UsageError

class Ours(Elr43):
    def alter_partition(self, partition, cluster, request):
        {body}
"""
VIOLATED = 'return finding(exercised=1, violations=[{"why": "ours"}])'
UNKNOWN = 'return finding(exercised=1, violations=[], unknown=[{"why": "ours"}])'


ELSEWHERE = RULE.format(body=VIOLATED, more="").replace("RULE =", "_check.__module__ = 'elsewhere'\nRULE =")


def rule_file(folder: Path, name: str, body: str = VIOLATED, more: str = "") -> Path:
    """A file with a rule whose check has this body."""
    path = folder / f"{name}.py"
    path.write_text(RULE.format(body=body, more=more))
    return path


def story_in(folder: Path) -> Story:
    """A run that is as predicted by the shipped rules."""
    (folder / "run").mkdir()
    return healthy_story(folder / "run", NO_LOSS)


def test_the_example_holds_on_a_real_record_and_fails_where_it_is_turned_round(tmp_path: Path) -> None:
    turned = tmp_path / "leader_changes_in_no_election.py"
    text = EXAMPLE.read_text()
    assert text.count("after.leader == before.leader") == 1
    turned.write_text(text.replace("after.leader == before.leader", "after.leader != before.leader"))
    record = prepare_record(RecordFolder(unpack_record("unclean-election-4.4.0", tmp_path / "record")))
    found = Reconciliation(counts=Counts())
    shipped = verdict_of(record, found)
    with own_rules([EXAMPLE, turned]):
        judged = verdict_of(record, found)
    assert shipped.outcome != "contradicted"
    assert judged.outcome == "contradicted"
    assert (by_name(judged)[NAME], by_name(judged)["leader-changes-in-no-election"]) == ("holds", "violated")
    assert [one.name for one in judged.properties[: len(shipped.properties)]] == [
        one.name for one in shipped.properties
    ]
    assert judged.own_rules[0].file == EXAMPLE.name
    assert judged.own_rules[0].sha256 == hashlib.sha256(EXAMPLE.read_bytes()).hexdigest()


SCAN = """
from analysis.record.scans import Scan

class Sends(Scan):
    columns = {columns}
    count = 0

    def add(self, rows):
        self.count += {add}

    def result(self):
        return self.count
"""


@pytest.mark.parametrize(("add", "status"), [("len(rows.numbers('value'))", "holds"), ("len(nothing)", "unknown")])
def test_a_scan_of_a_rule_takes_its_rows_from_the_pass_that_all_share(tmp_path: Path, add: str, status: str) -> None:
    path = rule_file(tmp_path, "ours", "return finding(exercised=judged.record.seen(Sends), violations=[])")
    text = path.read_text().replace("check=_check", "check=_check, scans=(Sends,)")
    path.write_text(f"{text.splitlines()[0]}{SCAN.format(columns={'sends': ('value',)}, add=add)}{text}")
    folder = unpack_record("unclean-election-4.4.0", tmp_path / "record")
    with own_rules([path]):
        record = prepare_record(RecordFolder(folder))
        (asked,) = [scan for scan in record.scans() if type(scan).__name__ == "Sends"]
        feed_table(record, "sends", record.scans())
        assert asked.has_read == {"sends"}
        verdict = verdict_of(record, Reconciliation(counts=Counts()))
    (ours,) = [one for one in verdict.properties if one.name == "ours"]
    assert ours.status == status


def test_a_scan_of_a_column_that_no_record_has_is_refused(tmp_path: Path) -> None:
    path = rule_file(tmp_path, "ours", more=", scans=(Sends,)")
    text = path.read_text()
    path.write_text(f"{text.splitlines()[0]}{SCAN.format(columns={'sends': ('price',)}, add='1')}{text}")
    with pytest.raises(UsageError, match="a scan reads price of sends"):
        read_own_rule(path)


def test_the_page_shows_the_example_as_it_is() -> None:
    assert f"```python\n{EXAMPLE.read_text()}```" in (ROOT / "docs" / "own-rules.md").read_text()


@pytest.mark.parametrize(
    ("body", "status"),
    [
        ("return partition.leader in partition.isr", "holds"),
        ("return cluster.min_isr == 2", "holds"),
        ("return len(partition.isr) < 3", "violated"),
        ("return partition.nothing", "unknown"),
        ("return None", "unknown"),
    ],
)
def test_a_property_is_checked_in_each_recorded_state(tmp_path: Path, body: str, status: str) -> None:
    path = tmp_path / "ours.py"
    path.write_text(f'"""Ours: a state is so."""\n\n\ndef holds(partition, cluster):\n    {body}\n')
    story = story_in(tmp_path)
    with own_rules([path]):
        verdict = story.judge()
    found = next(one for one in verdict.properties if one.name == "ours")
    assert found.status == status
    if status == "unknown":
        assert "ours.py" in found.evidence[0]["why"]
    assert verdict.own_rules[0].sha256 == hashlib.sha256(path.read_bytes()).hexdigest()


@pytest.mark.parametrize(
    ("body", "said"),
    [
        ("return partition.nothing", "alter_partition failed: AttributeError: 'Partition' object"),
        ("return None", "alter_partition returned a wrong type: None"),
        ("raise SystemExit(3)", "alter_partition failed: SystemExit: 3"),
        ("raise UsageError('ours')", "alter_partition failed: UsageError: ours"),
        ("while True: pass", "alter_partition failed: EndlessError: it has not ended after"),
        ("partition.elr = partition.isr", "alter_partition failed: AttributeError: can't set attribute"),
    ],
    ids=["throws", "wrong-type", "exits", "usage-error", "endless", "mutates"],
)
def test_a_run_judged_by_a_variant_that_fails_is_inconclusive_and_says_which_file_line_and_command(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, body: str, said: str
) -> None:
    monkeypatch.setattr(own, "ENDS_S", 0.1)
    path = tmp_path / "ours.py"
    path.write_text(VARIANT.format(body=body))
    story = story_in(tmp_path)
    for broker in (1, 2, 3):
        story.broker(2, broker, "unfenced")
    story.state(3, isr=[1, 2])
    with own.own_variant(path), judged_by_variant(VARIANTS["ours"]):
        verdict = story.judge()
    (evidence,) = next(one.evidence for one in verdict.properties if one.name.startswith("every-transition"))
    assert evidence["why"].startswith(f"the checker failed: {said}")
    assert f"(ours.py, line {6 if 'wrong' in said else 7})" in evidence["why"]
    assert verdict.outcome == "inconclusive"
    manifest = RecordFolder(tmp_path / "run")
    assert next_command("RUN", read_manifest(manifest), verdict) == (
        "ebbtide analyze RUN --variant ours.py    (when the file is correct)"
    )


def test_after_the_block_records_are_judged_without_the_rule(tmp_path: Path) -> None:
    story = story_in(tmp_path)
    with own_rules([rule_file(tmp_path, "ours")]):
        assert story.judge().outcome == "contradicted"
    verdict = story.judge()
    assert verdict.outcome == "as-predicted"
    assert "ours" not in by_name(verdict)
    assert verdict.own_rules == []


@pytest.mark.parametrize(
    ("body", "more", "why"),
    [
        ('raise KeyError("x")', "", "the checker failed: KeyError: 'x' (ours.py, line 5)"),
        ("return finding(exercised=1)", "", "the checker failed: TypeError: finding() missing 1"),
        ("return None", "", "the checker failed: TypeError: the check returned a NoneType, not a Finding"),
        ('return finding(exercised=1, violations=[{"where": print}])', "", "the checker failed: TypeError"),
        (VIOLATED, ", applies=lambda judged: judged.nothing", "the checker failed: AttributeError"),
        (
            'return __import__("msgspec").structs.replace(finding(exercised=1, violations=[]), status="held")',
            "",
            "the checker failed: ValueError: the check found 'held'; allowed: holds, violated",
        ),
    ],
    ids=["throws", "wrong-call", "no-finding", "no-json", "applies-throws", "no-status"],
)
def test_a_check_that_fails_leaves_its_rule_unknown(tmp_path: Path, body: str, more: str, why: str) -> None:
    story = story_in(tmp_path)
    with own_rules([rule_file(tmp_path, "ours", body, more)]):
        verdict = story.judge()
    (evidence,) = next(one.evidence for one in verdict.properties if one.name == "ours")
    assert evidence["why"].startswith(why)
    assert (by_name(verdict)["ours"], verdict.outcome) == ("unknown", "inconclusive")


@pytest.mark.parametrize(
    ("check", "needed", "status", "outcome"),
    [
        (UNKNOWN, "always", "unknown", "inconclusive"),
        (UNKNOWN, "never", "unknown", "as-predicted"),
        (VIOLATED, "always", "violated", "contradicted"),
    ],
)
def test_a_rule_of_the_user_decides_the_outcome_and_says_nothing_of_the_protocol(
    tmp_path: Path, check: str, needed: str, status: str, outcome: str
) -> None:
    story = story_in(tmp_path)
    with own_rules([rule_file(tmp_path, "ours", check, f", needed={needed!r}")]):
        verdict = story.judge()
    assert (by_name(verdict)["ours"], verdict.outcome) == (status, outcome)
    assert protocol_row(msgspec.json.decode(msgspec.json.encode(verdict), type=Verdict), None) == "nothing violated"


@pytest.mark.parametrize(
    ("name", "text", "what", "where"),
    [
        ("ours", "RULE = (", "the rule file is not Python", ", line 1"),
        ("ours", "x = 1\nraise ValueError(x)", "the rule file cannot be loaded", ", line 2"),
        ("ours", "import sys\nsys.exit(0)", "the rule file cannot be loaded", ", line 2"),
        (
            "ours",
            RULE.format(body=VIOLATED, more=', needed="sometimes"'),
            "the rule file cannot be loaded",
            ", line 7",
        ),
        ("ours", RULE.format(body=VIOLATED, more=', parts=("sent",)'), "the rule file cannot be loaded", ", line 7"),
        ("ours", RULE.format(body=VIOLATED, more=', parts="sends"'), "the rule file cannot be loaded", ", line 7"),
        ("ours", "x = 1", "the file has no rule", ""),
        ("ours", "RULE = 1", "the file has no rule", ""),
        ("lost", "", "another rule has this name", ""),
        ("leader_in_isr", "", "another rule has this name", ""),
        ("Ours", "", "a rule file cannot be called so", ""),
        ("two words", "", "a rule file cannot be called so", ""),
        (
            "ours",
            ELSEWHERE,
            "the check is not of this file",
            "",
        ),
    ],
)
def test_a_wrong_file_is_one_error(tmp_path: Path, name: str, text: str, what: str, where: str) -> None:
    path = tmp_path / f"{name}.py"
    path.write_text(text)
    with pytest.raises(UsageError) as raised:
        read_own_rule(path)
    assert (raised.value.what, raised.value.where) == (what, f"{path}{where}")
    assert raised.value.got
    assert raised.value.allowed


def test_a_file_that_is_not_there_and_a_name_that_comes_twice_are_errors(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="cannot read the rule file"):
        read_own_rule(tmp_path / "ours.py")
    (tmp_path / "other").mkdir()
    files = [rule_file(tmp_path, "ours"), rule_file(tmp_path / "other", "ours")]
    with pytest.raises(UsageError, match="another rule has this name"), own_rules(files):
        pass
