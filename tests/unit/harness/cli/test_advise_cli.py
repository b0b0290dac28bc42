"""`ebbtide advise`, from the typed command to its tables."""

from __future__ import annotations

import html
import json
import re
from pathlib import Path

import msgspec
import pytest
from made_cluster import MadeCluster, served_cluster
from made_snapshots import ELR, brokers, cluster, topic
from quick import quick_first
from schema_checks import assert_fits

from analysis.advise.advice import advise
from analysis.advise.assumption import parse_assumption
from ebbtide.snapshot.model import ClusterSnapshot, write_snapshot
from harness.cli import advise_table
from harness.cli.main import main
from tools.pages.schemas import json_outputs


def made() -> MadeCluster:
    cluster = MadeCluster()
    cluster.topics = {"logs": [{"leader": 1, "replicas": [1], "isr": [1], "elr": []}]}
    cluster.configs = {"logs": {"min.insync.replicas": "1"}}
    return cluster


def test_a_cluster_is_read_saved_and_read_again_from_the_file(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    saved, page = tmp_path / "cluster.json", tmp_path / "advice.html"
    with served_cluster(made()) as address:
        assert main(["advise", "--bootstrap", address, "--save", str(saved), "--html", str(page), "--all"]) == 0
    first = capsys.readouterr().out
    assert "RF 1, min ISR 1: 1 topic, 1 partition: logs" in first
    assert "1 broker loses power" in first
    assert "See: ebbtide scenarios show move-and-back" in " ".join(first.split())
    assert "See: https://issues.apache.org/jira/browse/KAFKA-20554" in " ".join(first.split())
    assert "and others" not in first
    assert page.read_text().startswith("<!doctype html>")
    assert main(["advise", str(saved), "--json"]) == 0
    said = json.loads(capsys.readouterr().out)
    assert said["release"]["kafka"] == "4.3.1"
    (group,) = said["groups"]
    assert group["topics"] == ["logs"]


def test_an_assumption_stands_beside_today(capsys: pytest.CaptureFixture[str]) -> None:
    with served_cluster(made()) as address:
        assert main(["advise", "--bootstrap", address, "--assume", "flush.messages=1", "--all"]) == 0
    said = capsys.readouterr().out
    line = next(one for one in said.splitlines() if one.startswith("1 broker loses power"))
    assert line.split()[-4:] == ["loses", "loses", "loses", "survives/survives"]
    assert "price: flush.messages=1: an fsync for each batch" in said


@pytest.mark.parametrize("minor", quick_first(["4.3", "3.4", "3.9", "4.0"]))
def test_each_proposed_change_names_its_price(minor: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    saved, page = tmp_path / "cluster.json", tmp_path / "advice.html"
    topics = (topic("one", 1, 1), topic("all", 3, 1, configs={"unclean.leader.election.enable": "true"}))
    advice = advise(cluster(minor, *topics, features={ELR: 1} if minor == "4.0" else None))
    write_snapshot(saved, advice.snapshot)
    assert main(["advise", str(saved), "--html", str(page), "--all"]) == 0
    on_page = " ".join(html.unescape(re.sub("<.*?>", "", page.read_text())).split())
    in_terminal = " ".join(capsys.readouterr().out.split())
    changes = [(one.change, one.price) for group in advice.groups for one in group.remedies]
    assert changes
    for change, price in [*changes, *((one.change, one.price) for one in advice.defects)]:
        assert price
        assert f"{change}. Price: {price}." in in_terminal
        assert f"{change}. Price: {price}." in on_page


@pytest.mark.parametrize(
    ("words", "says"),
    [
        ([], "name the cluster, or files that describe it"),
        ([], "--bootstrap HOST:PORT, a file of `ebbtide advise --save`, or files of one cluster: what kafka-topics"),
        (["c.json", "--bootstrap", "a:1"], "name the cluster, or files that describe it"),
        (["--bootstrap", "nowhere"], "not an address"),
        (["--bootstrap", "a:0"], "not an address"),
        (["--bootstrap", "a:99999"], "not an address"),
        (["no.json"], "No such file"),
        (["nosuch"], "server.properties, a compose file, Strimzi resources"),
        (["nosuch"], "next: ebbtide advise --bootstrap broker1.example:9092 (reads a cluster)"),
        (["--bootstrap", "HOST:PORT"], "such as broker1.example:9092"),
        (["c.json", "--command-config", "x"], "a file needs no connection"),
        (["c.json", "--assume", "x=1"], "nothing that can be assumed"),
        (["c.json", "--save", "/no/such/folder/c.json"], "cannot be written"),
        (["--bootstrap", "a:1", "--command-config", "/no/client.properties"], "No such file"),
    ],
)
def test_wrong_words_are_one_error(words: list[str], says: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["advise", *words]) == 4
    said = " ".join(capsys.readouterr().err.split())
    assert says in said
    assert "Traceback" not in said


def test_scenarios_go_into_an_empty_folder_and_can_be_validated(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = tmp_path / "lines"
    with served_cluster(made()) as address:
        assert main(["advise", "--bootstrap", address, "--scenario", str(folder)]) == 0
        said = capsys.readouterr().out
        assert main(["advise", "--bootstrap", address, "--scenario", str(folder)]) == 4
    assert "the folder is not empty" in capsys.readouterr().err
    files = sorted(folder.glob("*.toml"))
    assert f"scenarios: {len(files)} files" in said
    assert main(["scenarios", "check", *map(str, files)]) == 0


def test_a_bad_snapshot_leaves_no_folder_for_scenarios(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "cluster.json").write_text("{}")
    assert main(["advise", str(tmp_path / "cluster.json"), "--scenario", str(tmp_path / "a" / "b")]) == 4
    assert "this file does not describe a cluster" in capsys.readouterr().err
    assert sorted(tmp_path.iterdir()) == [tmp_path / "cluster.json"]


def test_a_line_without_a_scenario_is_named_once_also_with_another_rf(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With RF 5, the loss of five brokers' power is today that of three, which has its own line."""
    monkeypatch.setattr(advise_table, "_SHOWN_MAX", 1000)
    refused = cluster("3.6", topic("orders", 3, 6), brokers=brokers(5, 14))
    advice = advise(refused, assumed=parse_assumption("replication.factor=5"), states_max=1000)
    said = advise_table.write_scenarios(tmp_path / "lines", advice)
    missing = [line for line in said if line.startswith("  ")]
    assert "  rf3-min6-power-3-acks-all: acks=all is refused" in missing
    assert len(missing) == len(set(missing))
    assert f"without a scenario: {len(missing)} answers" in said


# `ebbtide advise --down` as a probe, and `ebbtide advise before.json after.json`.


OUTPUTS = {output.name: output for output in json_outputs()}


def saved(folder: Path, name: str, snapshot: ClusterSnapshot) -> str:
    write_snapshot(folder / name, snapshot)
    return str(folder / name)


def test_the_exit_code_says_whether_a_broker_may_go(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    whole = saved(tmp_path, "whole.json", cluster("3.9", topic("a", 3, 2)))
    assert main(["advise", whole, "--down", "1"]) == 0
    assert capsys.readouterr().out.startswith("Safe: taking down broker 1")
    behind = saved(tmp_path, "behind.json", cluster("3.9", topic("a", 3, 2, partition={"isr": (1, 2)})))
    assert main(["advise", behind, "--down", "1"]) == 1
    said = " ".join(capsys.readouterr().out.split())
    assert said.startswith("Not safe: taking down broker 1")
    assert "- 1 partition stops acking acks=all then: a-0" in said
    assert "- 1 partition can lose acked records if another broker loses power then: a-0" in said
    moving = {"isr": (1, 2, 3), "adding": (3,), "removing": (1,)}
    unknown = saved(tmp_path, "moving.json", cluster("3.9", topic("a", 3, 2, partition=moving)))
    assert main(["advise", unknown, "--down", "1"]) == 2
    assert "- 1 partition is unknown: being reassigned: a-0" in capsys.readouterr().out
    assert main(["advise", whole, "--down", "9"]) == 4


def test_a_change_is_told_by_the_events_that_it_changes(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    stays = topic("logs", 1, 1)
    doubts = ("env_file of a was not read",)
    before = saved(
        tmp_path, "before.json", cluster("4.0", topic("offsets", 3, 1), stays, assumed=doubts, controllers=None)
    )
    after = saved(
        tmp_path, "after.json", cluster("4.0", topic("offsets", 3, 2), stays, features={ELR: 1}, controllers=None)
    )
    assert main(["advise", before, after]) == 0
    lines = capsys.readouterr().out.splitlines()
    at = lines.index("RF 3, min ISR 1; now RF 3, min ISR 2: offsets")
    assert "  saved: 1 broker loses power, at the worst moment" in lines[at:]
    assert "the same: 1 topic" in lines
    assert f"note before: {doubts[0]}" in lines
    assert any(one.startswith("note: nobody named the controllers") for one in lines)
    assert main(["advise", before, before]) == 0
    assert "the same: 2 topics" in capsys.readouterr().out.splitlines()
    assert main(["advise", before, after, "--assume", "min.insync.replicas=2"]) == 4
    assert "with two files: what they do not say" in capsys.readouterr().err
    unsaid = [msgspec.structs.replace(cluster("9.9", stays), unsaid=("kafka",)) for _ in range(2)]
    files = [saved(tmp_path, f"{at}.json", one) for at, one in enumerate(unsaid)]
    assert main(["advise", *files]) == 4
    assert "--assume kafka=4.3.1" in capsys.readouterr().err
    assert main(["advise", *files, "--assume", "kafka=4.3.1"]) == 0
    assert "the same: 1 topic" in capsys.readouterr().out
    assert main(["advise", after, before, "--json"]) == 0
    [found] = assert_fits(OUTPUTS["advise-compare"], capsys.readouterr().out)
    assert "1 broker loses power, at the worst moment" in found["changes"][0]["new"]
    assert ({*found["notes_after"]} - {*found["notes_before"]}) == {*doubts}


def test_the_answer_for_programs_fits_its_schema(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    whole = saved(tmp_path, "whole.json", cluster("3.9", topic("a", 3, 2)))
    assert main(["advise", whole, "--down", "1,2", "--json"]) == 1
    [found] = assert_fits(OUTPUTS["advise-down"], capsys.readouterr().out)
    assert (found["says"], found["refused"]) == ("not safe", ["a-0"])
    assert json.dumps(found["brokers"]) == "[1, 2]"


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (["a.json", "b.json", "c.json"], "too many files"),
        (["a.json", "b.json", "--down", "1"], "too many files"),
        (["a.json", "b.json", "--html", "x.html"], "--html is for the whole advice"),
    ],
)
def test_questions_that_do_not_go_together_are_one_error(
    words: list[str], says: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["advise", *words]) == 4
    assert says in capsys.readouterr().err
