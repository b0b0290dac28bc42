"""`--variant FILE.py` and `--property FILE.py`: a change of the protocol is one file, and a wrong file one error."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from checkout import ROOT

from analysis.spec import own
from analysis.spec.effective_rules import text_of
from analysis.spec.explore.properties import PROPERTIES
from analysis.spec.variants import VARIANTS
from ebbtide import own_code
from ebbtide.errors import ExitCode
from ebbtide.scenario.parse import parse
from harness.cli.main import main

VECTORS = Path(__file__).parent / "vectors" / "elr.jsonl"
MOVES = ["--bounds", "brokers=4,admin=2,admin-kinds=move"]

WAITS = '''"""Ours: all targets must be in the ISR."""

from analysis.spec.elr_43 import Elr43

_ALL = frozenset.issuperset


class Waits(Elr43):
    def may_complete(self, isr, replicas, adding, removing, min_isr):
        return _ALL(isr, replicas)
'''
FORGETS = '''
from analysis.spec.elr_43 import Elr43

class Forgets(Elr43):
    """Ours: who leaves the ISR is in no ELR."""

    def provisional_elr(self, partition, isr, target):
        return super().provisional_elr(partition._replace(isr=isr), isr, target)
'''
SMALL_ELR = '''"""Ours: the ELR has at most one member."""

def holds(partition, cluster):
    return len(partition.elr) <= 1
'''


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with the files, in which the commands run."""
    monkeypatch.chdir(tmp_path)
    for name, text in (("waits", WAITS), ("forgets", FORGETS), ("small_elr", SMALL_ELR)):
        (tmp_path / f"{name}.py").write_text(text)
    return tmp_path


@pytest.mark.usefixtures("folder")
def test_one_changed_rule_turns_a_counterexample_into_a_proof(capsys: pytest.CaptureFixture[str]) -> None:
    shipped = dict(VARIANTS)
    assert main(["spec", "check", "--variant", "elr-43", *MOVES]) == ExitCode.CONTRADICTED
    assert main(["spec", "check", "--variant", "waits.py", *MOVES]) == ExitCode.AS_PREDICTED
    assert "waits.py, RF 3" in capsys.readouterr().out
    assert shipped == VARIANTS


@pytest.mark.usefixtures("folder")
def test_the_vectors_that_differ_are_shown(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["spec", "vectors", str(VECTORS), "--variant", "waits.py", "--json"]) == ExitCode.CONTRADICTED
    found = json.loads(capsys.readouterr().out)
    assert {one["vector"] for one in found["differences"]} == {"der-chainA-2-completes-below-min-isr"}
    assert {(one["kafka"], one["variant"]) for one in found["tallies"]} == {("4.4.0", "waits")}
    assert main(["spec", "vectors", str(VECTORS), "--variant", "elr-43"]) == ExitCode.AS_PREDICTED


@pytest.mark.usefixtures("folder")
def test_the_rules_are_printed_with_the_changed_one_and_what_it_uses(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["spec", "rules", "waits.py"]) == ExitCode.AS_PREDICTED
    printed = capsys.readouterr().out
    assert "# Since waits, instead of the rule since elr_43\n    def may_complete(" in printed
    assert "_ALL = frozenset.issuperset" in printed
    assert printed.count("def may_complete(") == 1 == text_of(VARIANTS["elr_43"]).count("def may_complete(")


def test_the_scenario_predicts_what_the_file_does_for_builds_newer_than_all_releases_and_what_these_do_for_them(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    bounds = ["--bounds", "power-losses=1,kills=1"]
    assert main(["spec", "find", "--variant", "forgets.py", *bounds, "--out", "f.toml"]) == ExitCode.AS_PREDICTED
    assert "ebbtide run f.toml --kafka 4.4.0,YOUR-BUILD" in capsys.readouterr().out
    scenario = parse((folder / "f.toml").read_text("utf-8"), file="f.toml")
    with_elr = [
        (one.kafka, one.loss.committed, "forgets" in one.clause) for one in scenario.predictions if one.features
    ]
    assert with_elr == [(">=4.0,<4.5", "none", False), (">=4.5", "some", True)]


@pytest.mark.usefixtures("folder")
def test_a_property_is_checked_in_every_state_and_lost_records_do_not_break_it(
    capsys: pytest.CaptureFixture[str],
) -> None:
    check = ["spec", "check", "--property", "small_elr.py", "--variant"]
    assert main([*check, "elr-43", "--bounds", "min-isr=3", "--json"]) == ExitCode.CONTRADICTED
    found = json.loads(capsys.readouterr().out)
    assert main([*check, "elr-43", "--bounds", "min-isr=3"]) == ExitCode.CONTRADICTED
    assert "note:" not in capsys.readouterr().out
    assert (found["property"], len(found["counterexample"][-1]["elr"])) == ("small-elr", 2)
    assert main([*check, "forgets.py", "--bounds", "power-losses=1,kills=1"]) == ExitCode.AS_PREDICTED
    assert "small-elr: Ours: the ELR has at most one member." in capsys.readouterr().out
    assert "small-elr" not in PROPERTIES


@pytest.mark.parametrize("name", ["wait_for_targets", "elr_of_replicas"])
def test_the_page_shows_the_examples_as_they_are(name: str) -> None:
    text = (ROOT / "examples" / "spec" / f"{name}.py").read_text()
    assert f"```python\n{text}```" in (ROOT / "docs" / "own-kafka.md").read_text()


def stated(body: str, base: str = "Elr43") -> str:
    """A file with a class of this body."""
    return f"from analysis.spec.elr_43 import Elr43\n\nclass Ours({base}):\n    {body}\n"


@pytest.mark.parametrize(
    ("text", "what", "where", "allowed"),
    [
        ("x = 1", "the file has no protocol variant", "", "one class that derives from a shipped variant"),
        ("from analysis.spec.elr_43 import Elr43", "the file has no protocol variant", "", "one class"),
        (stated("pass") + "class Other(Elr43): pass\n", "the file has more than one class", "", "one class"),
        ("from analysis.spec import Protocol\nclass Ours(Protocol): pass", "the class derives from no shipped", "", ""),
        (stated("def may_complete(self, isr):\n        return True"), "takes other parameters", ", line 4", "removing"),
        (
            stated("def may_completed(self, isr):\n        return True"),
            "no such rule, did you mean may_complete?",
            ", line 4",
            "a helper's name begins with _",
        ),
        (stated("strict_min_isr = 'yes'"), "strict_min_isr is of another kind", "", "a bool, as in Elr43"),
        (stated("may_complete = True"), "may_complete is of another kind", "", "a rule, as in Elr43"),
        (
            stated("fence = lambda self, partition, cluster, broker: None"),
            "returned a wrong type",
            ", line 4",
            "Outcome",
        ),
        (
            stated("def provisional_elr(self, partition, isr, target):\n        return set()"),
            "provisional_elr returned a wrong type",
            ", line 4",
            "frozenset[int]",
        ),
        (
            stated("def automatic_election(self, cluster):\n        return cluster.nothing"),
            "automatic_election failed",
            ", line 5",
            "an answer of the type",
        ),
        (
            stated("def elect_leader(self, partition, isr, elr, replicas, target):\n        return 77, False"),
            "the specification cannot go on with what a rule of this file answered",
            "",
            "brokers of the cluster",
        ),
        (
            stated("def fence(self, partition, cluster, broker):\n        raise SystemExit(3)"),
            "fence failed",
            ", line 5",
            "an answer of the type Outcome next: ebbtide spec rules elr-43 fence",
        ),
        (
            stated("def fence(self, partition, cluster, broker):\n        while True: pass"),
            "EndlessError: it has not ended after",
            ", line 5",
            "an answer of the type Outcome",
        ),
        (
            stated(
                "_seen = []\n    def provisional_elr(self, partition, isr, target):\n"
                "        self._seen.append(isr)\n        return frozenset(range(len(self._seen)))"
            ),
            "provisional_elr answered the same question in two ways",
            ", line 5",
            "a rule whose answer depends on its parameters alone",
        ),
        ("while True: pass", "EndlessError: it has not ended after", ", line 1", "one class"),
        ("raise SystemExit(3)", "the protocol variant cannot be loaded", ", line 1", "one class"),
        (stated("def __init__(self):\n        1 / 0"), "the class cannot be made", ", line 5", "one class"),
    ],
)
def test_a_wrong_variant_is_one_error_that_says_what_to_type_next(
    folder: Path,
    text: str,
    what: str,
    where: str,
    allowed: str,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(own, "ENDS_S", 0.2)
    monkeypatch.setattr(own_code, "ENDS_S", 0.2)
    (folder / "ours.py").write_text(text)
    code = main(["spec", "check", "--variant", "ours.py", "--bounds", "power-losses=1"])
    said = capsys.readouterr().err
    assert code == ExitCode.USAGE
    assert what in " ".join(said.split())
    assert allowed in " ".join(said.split())
    assert f"{folder / 'ours.py'}{where}\n" in said.replace("\n           ", "")
    assert said.count("error:") == 1
    assert "next:    ebbtide spec rules" in said or "cannot go on" in what
    assert "ours" not in VARIANTS


@pytest.mark.parametrize(
    ("text", "what", "where"),
    [
        ("x = 1", "the file has no property", ""),
        ("holds = True", "the file has no property", ""),
        ("def holds(state): return True", "holds takes other parameters", ", line 1"),
        ("\ndef holds(partition, cluster): pass", "holds returned a wrong type", ", line 2"),
        ("def holds(partition, cluster):\n    return partition.nothing", "holds failed", ", line 2"),
    ],
)
def test_a_wrong_property_is_one_error(
    folder: Path, text: str, what: str, where: str, capsys: pytest.CaptureFixture[str]
) -> None:
    (folder / "ours.py").write_text(text)
    code = main(["spec", "check", "--variant", "elr-43", "--property", "ours.py"])
    said = capsys.readouterr().err
    assert code == ExitCode.USAGE
    assert what in " ".join(said.split())
    assert f"ours.py{where}\n" in said.replace("\n           ", "")
    assert said.count("error:") == 1
    assert "next:    ebbtide spec rules 4.4.0 fence" in said


@pytest.mark.parametrize("words", [["--variant", "kraft.py"], ["--variant", "elr-43", "--property", "hw.py"]])
def test_a_file_called_as_a_shipped_thing_is_an_error(
    folder: Path, words: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    (folder / "kraft.py").write_text(WAITS)
    (folder / "hw.py").write_text(SMALL_ELR)
    assert main(["spec", "check", *words]) == ExitCode.USAGE
    assert "has this name" in capsys.readouterr().err
    assert main(["spec", "check", "--variant", "absent.py"]) == ExitCode.USAGE
    assert f"next:    ls {folder}\n" in capsys.readouterr().err.replace("\n           ", "")
