"""`ebbtide advise`, from the typed command to its tables."""

from __future__ import annotations

import html
import json
import re
from pathlib import Path

import pytest
from made_cluster import MadeCluster, served_cluster
from made_snapshots import ELR, brokers, cluster, topic
from quick import quick_first

from analysis.advise.advice import advise
from analysis.advise.assumption import parse_assumption
from ebbtide.snapshot.model import write_snapshot
from harness.cli import advise_table
from harness.cli.main import main


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
        ([], "name the cluster, or a file of --save"),
        (["c.json", "--bootstrap", "a:1"], "name the cluster, or a file of --save"),
        (["--bootstrap", "nowhere"], "not an address"),
        (["--bootstrap", "a:0"], "not an address"),
        (["--bootstrap", "a:99999"], "not an address"),
        (["no.json"], "No such file"),
        (["no.json"], "next:    ebbtide advise --bootstrap broker1.example:9092 --save cluster.json"),
        (["--bootstrap", "HOST:PORT"], "such as broker1.example:9092"),
        (["c.json", "--command-config", "x"], "a file needs no connection"),
        (["c.json", "--assume", "x=1"], "nothing that can be assumed"),
        (["c.json", "--save", "/no/such/folder/c.json"], "cannot be written"),
        (["--bootstrap", "a:1", "--command-config", "/no/client.properties"], "No such file"),
    ],
)
def test_wrong_words_are_one_error(words: list[str], says: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["advise", *words]) == 4
    said = capsys.readouterr().err
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
    assert "not a snapshot of a cluster" in capsys.readouterr().err
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
