"""`--rule FILE` as a person meets it; Spark's part is given, not run."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import pytest
from judge_records import NO_LOSS, Story, healthy_story

from analysis.judging import many_records as many
from analysis.spark import java_start
from analysis.spark import session as spark
from ebbtide.record.files import RecordFolder
from ebbtide.record.verdict import Verdict, read_verdict, write_verdict
from harness.cli.main import main
from harness.cli.rule_files import judging_options
from harness.replay.finding import finding
from harness.shrink.goal import goal_to_keep

RULE = """
'Ours: never.'
from analysis.judge.rules.clause import Clause, finding

RULE = Clause(
    kip="ours",
    check=lambda judged: finding(exercised=1, violations=[{"why": "ours"}]),
)
"""


@pytest.fixture
def story(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Story:
    """A record that is as predicted by the shipped rules."""
    (tmp_path / "run").mkdir()
    made = healthy_story(tmp_path / "run", NO_LOSS)
    made.write()

    @contextmanager
    def session(master: str | None = None, *, rows: int = 0, start: None = None) -> Iterator[None]:
        yield None

    def judge_many(records: Sequence[Path], *_: object) -> Iterator[tuple[Path, Verdict]]:
        for record in records:
            verdict = made.judge()
            write_verdict(RecordFolder(record), verdict)
            yield record, verdict

    monkeypatch.setattr(spark, "session", session)
    monkeypatch.setattr(java_start, "is_first_session", lambda master: False)
    monkeypatch.setattr(many, "judge_many", judge_many)
    return made


@pytest.fixture
def rule(tmp_path: Path) -> Path:
    """A file with a rule that every record violates."""
    path = tmp_path / "never_good.py"
    path.write_text(RULE)
    return path


def test_a_violated_rule_of_the_user_is_exit_code_1(
    story: Story, rule: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["analyze", str(story.record), "--rule", str(rule)]) == 1
    assert "never-good" in capsys.readouterr().out
    assert judging_options() == []


def test_without_the_file_a_note_says_so_and_the_other_rules_judge(
    story: Story, rule: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    main(["analyze", str(story.record), "--rule", str(rule)])
    assert "before; without" not in capsys.readouterr().err
    assert main(["analyze", str(story.record)]) == 0
    said = capsys.readouterr().err
    assert "was judged with never_good.py before; without --rule never_good.py it is judged by the other rules" in said
    assert main(["analyze", str(story.record)]) == 0
    assert "before; without" not in capsys.readouterr().err


def test_a_wrong_file_is_wrong_usage_before_anything_is_judged(
    story: Story, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "ours.py").write_text("RULE = None")
    assert main(["analyze", str(story.record), "--rule", str(tmp_path / "ours.py")]) == 4
    assert "the file has no rule" in capsys.readouterr().err
    assert read_verdict(RecordFolder(story.record)) is None


def test_replay_and_shrink_know_the_violation(story: Story, rule: Path) -> None:
    main(["analyze", str(story.record), "--rule", str(rule)])
    verdict = read_verdict(RecordFolder(story.record))
    assert verdict is not None
    found = finding(verdict)
    assert found.facts == ("violated never-good",)
    assert goal_to_keep(found, "4.1.0", "ours").outcome == "contradicted"
