"""By which rules a run is judged: those of its release, of the nearest known one, or those that `--variant` names."""

from __future__ import annotations

import hashlib
from pathlib import Path

import msgspec
import pytest
from checkout import ROOT
from judge_records import NO_LOSS, Story, healthy_story

from analysis.record.protocol import judged_by, protocol_in_force
from analysis.record.record import Record
from analysis.report.summary import judged_run, summary_lines
from analysis.spec.own import own_variant
from ebbtide.errors import UsageError
from ebbtide.record.files import RecordFolder
from ebbtide.record.judged_by import JudgedBy, RulesOfRelease
from ebbtide.record.manifest import NodeRelease
from ebbtide.record.verdict import Verdict
from ebbtide.releases.builds import RecordedBuild, name_of_build
from ebbtide.releases.known_jars import known_digests
from ebbtide.releases.known_releases import KNOWN
from harness.cli.main import main
from harness.cli.rule_files import judged_with, judging_options

BUILD = RecordedBuild(version="4.5.0-SNAPSHOT", commit="77a89fcf8d7fa018", digests={"kafka_2.13.jar": "ab" * 32})


@pytest.mark.parametrize(
    ("kafka", "variant", "nearest", "known", "words"),
    [
        ("4.3.1", "elr-43", "4.3.1", True, ""),
        (
            "4.3.1@0123abcd",
            "elr-43",
            "4.3.1",
            False,
            "elr-43; 4.3.1@0123abcd is taken for 4.3.1, the nearest release that Ebbtide knows",
        ),
        (
            "4.5.0-SNAPSHOT@0123abcd",
            "elr-43",
            "4.4.0",
            False,
            "elr-43; 4.5.0-SNAPSHOT@0123abcd is newer than every release that Ebbtide knows",
        ),
        ("5.0.0", "elr-43", "4.4.0", False, "elr-43; 5.0.0 is newer than every release that Ebbtide knows"),
        (
            "4.0.7",
            "elr-40",
            "4.0.2",
            False,
            "elr-40; 4.0.7 is taken for 4.0.2, the nearest release that Ebbtide knows",
        ),
        ("3.9.3@0123abcd", "strict-min-isr-39", "3.9.2", False, None),
    ],
)
def test_the_nearest_known_release_gives_the_rules(
    kafka: str, variant: str, nearest: str, known: bool, words: str | None
) -> None:
    rules = judged_by(kafka)
    assert rules == JudgedBy(variant=variant, nearest=nearest, known=known)
    assert words is None or rules.in_words(kafka) == words


@pytest.mark.parametrize("version", [one.version for one in KNOWN])
def test_a_build_of_exactly_the_jars_of_a_release_is_that_release(version: str) -> None:
    jars = known_digests()[f"kafka-{version}"]
    rules = judged_by(name := name_of_build(version, jars))
    assert rules is not None
    assert rules.known
    assert rules.in_words(name) == ""
    other = judged_by(name_of_build(version, {**jars, f"kafka_2.13-{version}.jar": "ab" * 32}))
    assert other == msgspec.structs.replace(rules, known=False), "one other jar is another Kafka"


def test_what_is_no_release_has_no_rules() -> None:
    assert judged_by("trunk") is None
    with pytest.raises(UsageError, match="does not know this release"):
        protocol_in_force("trunk", {})


def test_a_named_variant_judges_whatever_ran() -> None:
    with judged_with((), "kip966"):
        assert judging_options() == ["--variant", "kip966"]
        rules = judged_by("4.3.1")
        assert rules == JudgedBy(variant="kip966", nearest="4.3.1", known=True)
        assert rules.in_words("4.3.1") == "kip966, as --variant says; 4.3.1 would be judged by elr-43"
    assert judging_options() == []
    assert judged_by("4.3.1") == JudgedBy(variant="elr-43", nearest="4.3.1", known=True)


def test_a_variant_of_a_release_may_be_named_by_the_release() -> None:
    with judged_with((), "3.9.1"):
        assert not protocol_in_force("4.3.1", {}).has_elr


def test_a_variant_of_the_user_is_named_with_its_file_and_digest() -> None:
    file = ROOT / "examples" / "spec" / "wait_for_targets.py"
    with own_variant(file), judged_with((), str(file)):
        assert judging_options() == ["--variant", str(file)]
        rules = judged_by("4.3.1")
        assert rules is not None
        assert rules.in_words("4.3.1") == "wait-for-targets, as --variant says; 4.3.1 would be judged by elr-43"
        assert (rules.file, rules.sha256) == (file.name, hashlib.sha256(file.read_bytes()).hexdigest())
    assert judged_by("4.3.1") == JudgedBy(variant="elr-43", nearest="4.3.1", known=True)


def test_an_unknown_variant_is_wrong_usage(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["analyze", "runs", "--variant", "elr-34"]) == 4
    assert "unknown protocol variant" in capsys.readouterr().err


def _of_build(story: Story) -> Story:
    story.manifest = msgspec.structs.replace(story.manifest, kafka="4.5.0", build=BUILD)
    return story


def test_the_verdict_the_table_and_the_page_say_it(tmp_path: Path) -> None:
    story = _of_build(healthy_story(tmp_path, NO_LOSS))
    verdict = story.judge()
    assert verdict.protocol == JudgedBy(variant="elr-43", nearest="4.4.0", known=False)
    assert msgspec.json.decode(msgspec.json.encode(verdict), type=Verdict).protocol == verdict.protocol
    said = "elr-43; " + BUILD.name + " is newer than every release that Ebbtide knows"
    assert dict(summary_lines(judged_run(Record.at(RecordFolder(story.record)), verdict)))["judged by"] == said


def _upgraded(story: Story, first: str, then: str) -> Story:
    starts = (NodeRelease(kafka=first, started_ns=1), NodeRelease(kafka=then, started_ns=2))
    story.manifest = msgspec.structs.replace(story.manifest, kafka=first, releases={"1": starts})
    return story


def test_an_upgrade_is_judged_by_the_rules_of_each_release_and_says_so(tmp_path: Path) -> None:
    story = _upgraded(healthy_story(tmp_path, NO_LOSS), "3.9.1", "4.5.0")
    verdict = story.judge()
    assert isinstance(verdict.protocol, JudgedBy)
    assert (verdict.protocol.variant, verdict.protocol.nearest) == ("strict-min-isr-39", "3.9.1")
    assert verdict.protocol.releases == [
        RulesOfRelease(kafka="3.9.1", variant="strict-min-isr-39", nearest="3.9.1", known=True),
        RulesOfRelease(kafka="4.5.0", variant="elr-43", nearest="4.4.0", known=False),
    ]
    said = (
        "each node by the rules of its release: 3.9.1 by strict-min-isr-39, 4.5.0 by elr-43; "
        "4.5.0 is newer than every release that Ebbtide knows"
    )
    record = Record.at(RecordFolder(story.record))
    assert dict(summary_lines(judged_run(record, verdict)))["judged by"] == said
    rules = record.protocol.software
    assert [rules.release_of(1, at_ns) for at_ns in (1, 2)] == ["3.9.1", "4.5.0"], "the judge does what it says"


def test_a_named_variant_judges_both_releases_of_an_upgrade() -> None:
    with judged_with((), "strict-min-isr-39"):
        rules = judged_by("3.9.1", ("3.9.1", "4.3.1"))
        assert rules is not None
        said = "3.9.1 would be judged by strict-min-isr-39, 4.3.1 would be judged by elr-43"
        assert rules.in_words("3.9.1") == f"strict-min-isr-39, as --variant says; {said}"


def test_a_release_that_ebbtide_knows_needs_no_line(tmp_path: Path) -> None:
    story = healthy_story(tmp_path, NO_LOSS)
    verdict = story.judge()
    assert verdict.protocol == JudgedBy(variant="strict-min-isr-39", nearest="3.9.1", known=True)
    assert dict(summary_lines(judged_run(Record.at(RecordFolder(story.record)), verdict)))["judged by"] == ""


def test_a_manifest_has_three_numbers_and_the_name_of_the_build(tmp_path: Path) -> None:
    manifest = _of_build(healthy_story(tmp_path, NO_LOSS)).manifest
    assert (manifest.kafka, manifest.release_path) == ("4.5.0", ("4.5.0",))
    assert manifest.kafka_name == manifest.shown_kafka == BUILD.name
    assert manifest.named_path == (BUILD.name,)
    other = msgspec.structs.replace(BUILD, digests={"kafka_2.13.jar": "cd" * 32})
    assert other.name != BUILD.name


@pytest.mark.parametrize("change", [{"version": "../../4.5.0"}, {"commit": "\u001b[2J"}, {"version": "4.5"}])
def test_a_manifest_cannot_name_a_build_as_no_build_is_called(change: dict[str, str]) -> None:
    hostile = msgspec.json.encode({**msgspec.to_builtins(BUILD), **change})
    with pytest.raises(msgspec.ValidationError):
        msgspec.json.decode(hostile, type=RecordedBuild)
