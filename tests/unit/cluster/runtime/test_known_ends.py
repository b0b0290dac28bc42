"""The end of a node that a finding explains names the page of the finding; no other end does."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from cluster.runtime.jvm import KNOWN_ENDS, end_error, known_end_clause
from ebbtide.errors import HarnessError
from harness.runner.node_watch import NodeWatch

ROOT = Path(__file__).parents[4]
EXPECTED = "java.lang.IllegalStateException: Expected to be Follower, but the current state is "
ON_391 = (
    f"{EXPECTED}Unattached(epoch=1, votedKey=null, voters=[], electionTimeoutMs=1183, highWatermark=Optional.empty)"
)
ON_431 = (
    f"{EXPECTED}UnattachedState(epoch=1, leaderId=OptionalInt[100], votedKey=Optional.empty, voters=[], "
    "electionTimeoutMs=1840, highWatermark=Optional.empty)"
)
NAMED = "a known finding: empty-metadata-log (docs/findings/empty-metadata-log.md)"


def test_every_finding_of_an_end_has_its_page() -> None:
    assert [one.page for one in KNOWN_ENDS if not (ROOT / one.page).is_file()] == []


@pytest.mark.parametrize("line", [ON_391, ON_431])
def test_a_broker_with_an_empty_metadata_log_names_the_finding(line: str, tmp_path: Path) -> None:
    log = tmp_path / "broker-1.log"
    shutdown = "INFO shut down\n" * 30
    log.write_text(
        f"ERROR Encountered fatal fault: Unexpected error in raft IO thread\n{line}\n\tat org.apache.kafka\n{shutdown}"
    )
    assert end_error("broker-1", "ended before it was ready", 1, log).what == (
        f"broker-1 ended before it was ready (exit code 1), {NAMED}"
    )


def test_a_broker_that_died_later_names_it_too(tmp_path: Path) -> None:
    log = tmp_path / "broker-1.log"
    log.write_text(f"{ON_431}\n" + "INFO shut down\n" * 30)
    node = SimpleNamespace(id=1, name="broker-1")
    runtime: Any = SimpleNamespace(nodes={1: node}, pid=lambda _: None, log_file=lambda _: log)
    schedule: Any = SimpleNamespace(down=set(), paused_nodes=set(), note_down=lambda _: None, entries=[])
    notes: list[str] = []
    with pytest.raises(HarnessError) as caught:
        NodeWatch(runtime, schedule, 3.0).look(notes.append, judged=True)
    assert caught.value.what == f"broker-1 died by itself, {NAMED}"
    NodeWatch(runtime, schedule, 3.0).look(notes.append, judged=False)
    assert notes == [f"broker-1 died by itself, {NAMED}: zcat -f {log}*"]


@pytest.mark.parametrize(
    "line",
    [
        ON_431.replace("voters=[]", "voters=[100]"),
        ON_431.replace("UnattachedState", "CandidateState"),
        "java.lang.IllegalStateException: something else, voters=[]",
        "Shutting down because we were unable to register with the controller quorum",
    ],
)
def test_another_end_names_no_finding(line: str) -> None:
    assert known_end_clause(line) == ""
