"""A fault that did not take effect proves nothing: the run is inconclusive, and says which fault and why."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from live.commands import ebbtide, records_in
from rich.console import Console

from cluster.host.bridge import BridgeNetwork
from ebbtide.record.verdict import read_verdict
from ebbtide.scenario import catalogue
from harness.runner.display import PlainDisplay
from harness.runner.run import RunRequest, run_scenario

pytestmark = pytest.mark.live


@pytest.mark.slow
def test_a_partition_whose_rules_were_not_applied_is_inconclusive(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(BridgeNetwork, "cut", lambda _self, _cuts: None)
    scenario = catalogue.find("last-replica-standing")
    request = RunRequest(scenario=scenario, kafka="3.9.1", seed=1, runs=tmp_path / "runs")
    record = run_scenario(request, PlainDisplay(Console(quiet=True)))
    done = ebbtide("analyze", record)
    verdict = read_verdict(record)
    assert verdict is not None
    assert (done.returncode, verdict.outcome) == (2, "inconclusive"), done.stdout + done.stderr
    assert any("packets still pass" in sentence for sentence in verdict.why)


@pytest.fixture
def hasty_kernel() -> Iterator[None]:
    """The kernel writes back after a second what else it keeps for half a minute."""
    settings = [Path("/proc/sys/vm", name) for name in ("dirty_expire_centisecs", "dirty_writeback_centisecs")]
    before = [path.read_text() for path in settings]
    for path in settings:
        path.write_text("100")
    yield
    for path, text in zip(settings, before, strict=True):
        path.write_text(text)


def test_a_power_loss_after_the_kernel_wrote_everything_back_is_inconclusive(
    hasty_kernel: None, tmp_path: Path
) -> None:
    waiting = (
        '[[steps]]\nstep = "wait"\ntrigger = { after = "10s" }\ndeadline_s = 30\n\n[[steps]]\nname = "cut-followers"'
    )
    scenario = tmp_path / "late.toml"
    scenario.write_text(
        catalogue.text_of("last-replica-standing").replace('[[steps]]\nname = "cut-followers"', waiting)
    )
    done = ebbtide("run", scenario, "--kafka", "3.9.1", "--keep-write-back", "--runs", tmp_path / "runs")
    (record,) = records_in(tmp_path / "runs")
    verdict = read_verdict(record)
    assert verdict is not None
    assert (done.returncode, verdict.outcome) == (2, "inconclusive"), done.stdout + done.stderr
    assert any("power-loss" in sentence for sentence in verdict.why)
