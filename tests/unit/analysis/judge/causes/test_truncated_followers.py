"""A follower that truncates a committed record after it joined the ISR is not blamed on its join (KAFKA-18991)."""

from __future__ import annotations

import gzip
from datetime import UTC, datetime
from pathlib import Path

import pytest
from judge_records import BEFORE_KIP_903, Story, by_name, cause_and_leader, ns
from records import as_record
from stale_joins import stale_join

from analysis.judge.history.log_lines import truncations
from ebbtide.record.verdict import Verdict

KIP_903 = {"metadata.version": 11}


def log_line(at_s: float, to: int, partition: str = "t-0") -> str:
    """What Kafka logs when it truncates."""
    at = datetime.fromtimestamp(ns(at_s) / 1e9, UTC)
    stamp = f"{at:%Y-%m-%dT%H:%M:%S}.{at.microsecond // 1000:03}Z"
    thread = "[ReplicaFetcherThread-0-2] INFO kafka.log.UnifiedLog"
    return f"{stamp} {thread} - [UnifiedLog partition={partition}, dir=/kafka] Truncating to offset {to}\n"


def joined_and_elected(record: Path, *lines: str, features: dict[str, int] = KIP_903) -> Story:
    """Broker 2 joins the ISR at 14 s and leads from 18 s on without offsets 0 to 99."""
    story = stale_join(record, features, kafka="3.5.2")
    if lines:
        (record / "logs").mkdir()
        with gzip.open(record / "logs" / "broker-2.log.gz", "wt") as log:
            log.writelines(["no line of interest\n", *lines])
    return story


def reasons(verdict: Verdict) -> str:
    return "\n".join(verdict.why)


def blames_kip_903(verdict: Verdict) -> bool:
    return by_name(verdict)["no-isr-join-with-an-old-broker-epoch"] == "violated"


def test_a_truncation_after_the_join_is_what_the_verdict_names_and_not_kip_903(tmp_path: Path) -> None:
    verdict = joined_and_elected(tmp_path, log_line(13, 0), log_line(16, 0)).judge()
    assert cause_and_leader(verdict)[0] == "unexplained"
    assert "broker 2 truncated its log to offset 0, below a committed record" in reasons(verdict)
    assert not blames_kip_903(verdict)


@pytest.mark.parametrize(
    "line",
    [log_line(13, 0), log_line(19, 0), log_line(16, 100), log_line(16, 0, "t-1"), log_line(16, 0)[1:], ""],
    ids=["before-the-join", "after-the-election", "above-the-record", "other-partition", "without-a-time", "none"],
)
def test_another_truncation_leaves_the_blame_on_the_join(tmp_path: Path, line: str) -> None:
    verdict = joined_and_elected(tmp_path, line).judge()
    assert "entered the ISR at metadata offset" in reasons(verdict)
    assert "truncated" not in reasons(verdict)
    assert blames_kip_903(verdict)


def test_a_join_that_the_protocol_of_its_time_allowed_stays_the_cause(tmp_path: Path) -> None:
    verdict = joined_and_elected(tmp_path, log_line(16, 0), features=BEFORE_KIP_903).judge()
    assert cause_and_leader(verdict)[0] == "stale-isr-join"
    assert "truncated" not in reasons(verdict)


def test_a_log_that_is_missing_or_damaged_names_no_truncation(tmp_path: Path) -> None:
    assert truncations(as_record(tmp_path), 2) == []
    joined_and_elected(tmp_path, log_line(16, 0))
    log = tmp_path / "logs" / "broker-2.log.gz"
    assert truncations(as_record(tmp_path), 2) == [("t-0", 2, ns(16), 0)]
    log.write_bytes(log.read_bytes()[:-9])
    assert truncations(as_record(tmp_path), 2) == []
