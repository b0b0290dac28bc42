"""`ebbtide advise --down` as a probe, and `ebbtide advise before.json after.json`."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from made_snapshots import ELR, cluster, topic
from schema_checks import assert_fits

from ebbtide.snapshot.model import ClusterSnapshot, write_snapshot
from harness.cli.main import main
from tools.pages.schemas import json_outputs

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
    before = saved(tmp_path, "before.json", cluster("4.0", topic("offsets", 3, 1), stays))
    after = saved(tmp_path, "after.json", cluster("4.0", topic("offsets", 3, 2), stays, features={ELR: 1}))
    assert main(["advise", before, after]) == 0
    lines = capsys.readouterr().out.splitlines()
    at = lines.index("RF 3, min ISR 1; now RF 3, min ISR 2: offsets")
    assert "  saved: 1 broker loses power, at the worst moment" in lines[at:]
    assert "the same: 1 topic" in lines
    assert main(["advise", before, before]) == 0
    assert "the same: 2 topics" in capsys.readouterr().out.splitlines()
    assert main(["advise", after, before, "--json"]) == 0
    [found] = assert_fits(OUTPUTS["advise-compare"], capsys.readouterr().out)
    assert "1 broker loses power, at the worst moment" in found["changes"][0]["new"]


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
