"""A torn write: half of the first lost page of a log is there, and a reader finds the damage."""

from __future__ import annotations

from pathlib import Path

import evidence_builders as build
import pytest
from test_power_loss import Lossy, OneNode

from ebbtide.logs.segments import leo_of, segment_files
from faults import power
from faults.power import PAGE_BYTES


class TornLogNode(OneNode):
    """One broker whose log has two flushed records and many that were not."""

    def __init__(self, folder: Path) -> None:
        super().__init__(folder)
        log = self.data_dir(1) / "t-0"
        flushed = [build.plain_batch(offset, b"x" * 900) for offset in (0, 1)]
        segment = build.write_log(log, *flushed)
        self.flushed = segment.read_bytes()
        build.write_log(log, *flushed, *(build.plain_batch(offset, b"y" * 900) for offset in range(2, 20)))
        self.written = segment.read_bytes()


@pytest.fixture
def runtime(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> TornLogNode:
    made = TornLogNode(tmp_path)

    def mount(_volume: Lossy) -> None:
        (segment,) = segment_files(made.data_dir(1) / "t-0").values()
        segment.write_bytes(made.flushed)

    monkeypatch.setattr(Lossy, "mount", mount)
    made.start([1])
    return made


def test_half_of_the_first_lost_page_is_there_and_zeros_for_the_other_half(runtime: TornLogNode) -> None:
    effect = power.torn_write(runtime, 1)
    assert effect.why is None
    (segment,) = segment_files(runtime.data_dir(1) / "t-0").values()
    now, start = segment.read_bytes(), len(runtime.flushed)
    half = start + (PAGE_BYTES - start + 1) // 2
    assert now == runtime.written[:half] + bytes(PAGE_BYTES - half)
    assert effect.proof["torn"]["t-0"] == {
        "segment": segment.name,
        "position": start,
        "arrived_bytes": half - start,
        "zero_bytes": PAGE_BYTES - half,
        "damage": "checksum",
    }


def test_the_log_ends_where_recovery_will_cut_it_and_what_arrived_is_not_counted_as_lost(runtime: TornLogNode) -> None:
    proof = power.torn_write(runtime, 1).proof
    log = proof["logs"]["t-0"]
    assert (log["leo_before"], log["leo_after"]) == (20, leo_of(runtime.data_dir(1) / "t-0"))
    assert 2 <= log["leo_after"] < 20
    assert proof["lost_bytes"] == len(runtime.written) - len(runtime.flushed) - proof["torn"]["t-0"]["arrived_bytes"]
    assert list(runtime.data_dir(1).parent.parent.glob("*.torn")) == []


def test_a_power_loss_that_took_nothing_has_no_page_to_tear(runtime: TornLogNode) -> None:
    runtime.flushed = runtime.written
    effect = power.torn_write(runtime, 1)
    assert (effect.effect_ns, effect.proof["torn"]) == (None, {})
    assert "no log had a page to tear" in str(effect.why)


def test_where_power_was_not_lost_that_is_said_and_not_the_tear(
    runtime: TornLogNode, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Lossy, "shut_down", lambda _volume: False)
    assert "still accepted writes" in str(power.torn_write(runtime, 1).why)
