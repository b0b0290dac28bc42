"""What the verbs do with jars in --kafka: they are read once, and only by the verbs that can run a build."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path

import pytest
from checkout import ROOT
from own_builds import make_build, make_jar

from cluster.builds import naming
from cluster.builds.naming import named_kafka
from cluster.jars.maven import ArtifactMissing
from ebbtide.errors import ExitCode
from harness.cli.completing import complete_releases
from harness.cli.main import main

FIND = ("spec", "find", "--variant", "elr-43", "--out", "found.toml")
VECTORS = ("spec", "vectors", str(ROOT / "tests" / "spec" / "vectors" / "elr.jsonl"))
WATCH = ("watch", "--bootstrap", "127.0.0.1:1", "--for", "1s")


@pytest.mark.parametrize(
    ("word", "allowed"),
    [
        ("./own", "a release; name the nearest, such as 4.4.0"),
        ("4.3.2-SNAPSHOT", "a release; the nearest is 4.3.1"),
        ("4.3.1@0123abcd", "a release; the nearest is 4.3.1"),
    ],
)
def test_what_knows_releases_only_says_which_is_nearest(
    word: str, allowed: str, capsys: pytest.CaptureFixture[str]
) -> None:
    make_build(Path("own"))
    assert main([*FIND, "--kafka", word]) == 4
    said = capsys.readouterr().err
    assert "a build cannot be named here" in said
    assert allowed in said


@pytest.mark.parametrize("verb", [FIND, VECTORS, WATCH], ids=["spec find", "spec vectors", "watch"])
def test_a_verb_that_runs_no_build_reads_no_jars_and_its_help_promises_none(
    verb: Sequence[str], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(naming, "named_kafka", lambda *_: pytest.fail("jars were read"))
    assert main([*verb, "--kafka", "./own"]) != 0
    capsys.readouterr()
    assert main([*verb[: verb.index(next(one for one in verb if "/" in one or one[:2] == "--"))], "--help"]) == 0
    said = " ".join(capsys.readouterr().out.split())
    assert "such as 4.3.1" in said
    assert "Of a build of yours, name the nearest release" in said
    assert "jars" not in said


@pytest.mark.parametrize("option", [("--kafka", "4.3.1,./own"), ("--kafka=4.3.1,./own",)])
def test_jars_are_read_once_where_another_process_goes_on_with_privileges(
    option: Sequence[str], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    make_build(Path("own"))
    reruns: list[Sequence[str]] = []
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    monkeypatch.setattr(
        "cluster.privileges.choice.rerun_with_privileges", lambda _, argv: reruns.append(argv) or ExitCode.AS_PREDICTED
    )
    assert main(["run", "healthy", *option, "--seed", "1"]) == 0
    assert capsys.readouterr().err.count("./own is Kafka") == 1
    ((*_, last, _, _),) = reruns
    name = named_kafka("./own", lambda line: None)
    assert last.removeprefix("--kafka=") == f"4.3.1,{name}"
    monkeypatch.setattr(naming, "locked_cache", lambda *_: pytest.fail("jars were read again"))
    assert named_kafka(last.removeprefix("--kafka="), lambda line: pytest.fail(line)) == f"4.3.1,{name}"


def test_kafka_fetch_takes_a_build_and_kafka_list_shows_it(capsys: pytest.CaptureFixture[str]) -> None:
    make_build(Path("own"))
    assert main(["kafka", "fetch", "./own"]) == 0
    (shown,) = (line for line in capsys.readouterr().out.splitlines() if line.startswith("Kafka "))
    name = shown.split()[1].rstrip(":")
    assert main(["kafka", "list"]) == 0
    rows = {line.split()[0]: line for line in capsys.readouterr().out.splitlines() if line}
    assert rows[name].endswith("ELR on (as 4.4.0)"), "it says by which rules it would be judged"
    assert rows["3.4.1"].endswith("no ELR; joins the ISR with a stale broker epoch (before KIP-903)")
    completed = complete_releases("3.9.1,4.5")
    assert [one.value for one in completed] == [f"3.9.1,{name}"]


@pytest.mark.parametrize(("word", "kind"), [("4.5", "folder"), ("4.5.0-SNAPSHOT", "folder"), ("45", "file")])
def test_a_word_that_is_no_release_but_a_file_or_folder_here_gets_the_path_to_type(
    word: str, kind: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def missing(*_: object, **__: object) -> None:
        raise ArtifactMissing(f"org.apache.kafka:kafka_2.13:{word}", Path("log"))

    monkeypatch.setattr(naming, "copy_jars", missing)
    if kind == "file":
        Path(word).touch()
    else:
        make_build(Path(word))
    assert main(["run", "healthy", "--kafka", word]) == 4
    said = capsys.readouterr().err
    assert " ".join(f"ebbtide run healthy --kafka ./{word} (if you mean the {kind} of this name)".split()) in " ".join(
        said.replace("\\\n", " ").split()
    )
    if kind == "folder":
        assert named_kafka(f"./{word}", lambda line: None).startswith("4.5.0-SNAPSHOT@")


def test_one_jar_is_one_jar(capsys: pytest.CaptureFixture[str]) -> None:
    make_jar(Path("one/own.jar"), {"A.class": "a"})
    assert main(["run", "healthy", "--kafka", "./one"]) == 4
    assert "got:     1 jar, none with the class kafka.Kafka" in capsys.readouterr().err


def test_an_image_and_jars_contradict_each_other(capsys: pytest.CaptureFixture[str]) -> None:
    make_build(Path("own"))
    assert main(["run", "healthy", "--kafka", "./own", "--image", "mine/kafka:dev"]) == 4
    assert "an image holds a Kafka of its own" in capsys.readouterr().err
