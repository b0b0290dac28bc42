"""A fault that did not take effect proves nothing: the run is inconclusive, and says which fault and why."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec
import pytest
from host_turn import HOST
from live.in_process import run_and_judge

from cluster.host.bridge import BridgeNetwork
from ebbtide.scenario import catalogue
from harness.runner.launch import Launch, LaunchOptions
from harness.runner.run import RunRequest

if TYPE_CHECKING:
    from analysis.items.on_spark import Spark

pytestmark = [pytest.mark.live, pytest.mark.slow, pytest.mark.spark]


def test_a_partition_whose_rules_were_not_applied_is_inconclusive(
    spark_if_needed: Spark, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(BridgeNetwork, "cut", lambda _self, _cuts: None)
    options = LaunchOptions(runs=tmp_path / "runs", runtime="local")
    [(_, verdict)] = run_and_judge("last-replica-standing", "3.9.1", options=options, spark=spark_if_needed)
    assert verdict.outcome == "inconclusive", verdict.why
    assert any("packets still pass" in sentence for sentence in verdict.why)


@pytest.fixture
def hasty_kernel() -> Iterator[None]:
    """The kernel writes back after a second what else it keeps for half a minute."""
    settings = [Path("/proc/sys/vm", name) for name in ("dirty_expire_centisecs", "dirty_writeback_centisecs")]
    with HOST.held():
        before = [path.read_text() for path in settings]
        for path in settings:
            path.write_text("100")
        yield
        for path, text in zip(settings, before, strict=True):
            path.write_text(text)


def test_a_power_loss_after_the_kernel_wrote_everything_back_is_inconclusive(
    hasty_kernel: None, spark_if_needed: Spark, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def request_without_hold(*arguments: Any, **more: Any) -> RunRequest:
        return msgspec.structs.replace(request(*arguments, **more), hold_write_back=False)

    request = Launch.request
    monkeypatch.setattr(Launch, "request", request_without_hold)
    waiting = (
        '[[steps]]\nstep = "wait"\ntrigger = { after = "10s" }\ndeadline_s = 30\n\n[[steps]]\nname = "cut-followers"'
    )
    scenario = tmp_path / "late.toml"
    scenario.write_text(
        catalogue.text_of("last-replica-standing").replace('[[steps]]\nname = "cut-followers"', waiting)
    )
    options = LaunchOptions(runs=tmp_path / "runs", runtime="local")
    [(_, verdict)] = run_and_judge(scenario, "3.9.1", options=options, spark=spark_if_needed)
    assert verdict.outcome == "inconclusive", verdict.why
    assert any("power-loss" in sentence for sentence in verdict.why)
