"""What ends a schedule early, and that its record and its error say at which step."""

from __future__ import annotations

from pathlib import Path

import pytest
from test_schedule import Bench

from faults.base import Effect
from harness.errors import HarnessError
from harness.runner import acts
from harness.scenario.model import StepSpec


@pytest.fixture
def bench(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Bench:
    return Bench(tmp_path, monkeypatch)


@pytest.mark.parametrize(("where", "told"), [(None, "step 1 (kill)"), ("broker-1.log", "broker-1.log")])
def test_a_step_that_could_not_be_injected_is_named_in_the_error_and_says_why_in_the_record(
    bench: Bench, monkeypatch: pytest.MonkeyPatch, where: str | None, told: str
) -> None:
    def kill(_runtime: object, _node: int) -> Effect:
        raise HarnessError("broker-1 is down", where=where)

    monkeypatch.setitem(acts.INJECT, "kill", kill)
    with pytest.raises(HarnessError) as caught:
        bench.run(StepSpec(step="heal"), StepSpec(step="kill", target="broker(1)"))
    assert caught.value.where == told
    assert str(caught.value) == f"broker-1 is down\n  where:   {told}"
    heal, failed = bench.entries()
    assert (heal.why, failed.why) == (None, str(caught.value))
    assert failed.fired_ns is not None
