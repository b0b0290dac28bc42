"""Every kind of step that the catalogue's demos do not play, on one real cluster: each takes effect and proves it."""

from __future__ import annotations

import io
from pathlib import Path

import pytest
from rich.console import Console

from ebbtide.record.steps import StepEntry, read_steps
from ebbtide.scenario.parse import load
from harness.runner.display import PlainDisplay
from harness.runner.run import RunRequest, run_scenario

pytestmark = pytest.mark.live

SCENARIO = Path(__file__).with_name("every_step.toml")


@pytest.fixture(scope="module")
def log_stream() -> io.StringIO:
    return io.StringIO()


@pytest.fixture(scope="module")
def steps(tmp_path_factory: pytest.TempPathFactory, log_stream: io.StringIO) -> list[StepEntry]:
    request = RunRequest(
        scenario=load(SCENARIO), kafka="4.3.1", seed=1, runs=tmp_path_factory.mktemp("every-step") / "runs"
    )
    record = run_scenario(request, PlainDisplay(Console(file=log_stream, width=200)))
    return read_steps(record) or []


def of_kind(steps: list[StepEntry], kind: str) -> list[StepEntry]:
    return [step for step in steps if step.step == kind]


def test_every_step_took_effect(steps: list[StepEntry], log_stream: io.StringIO) -> None:
    unproven = {f"{step.index} {step.step}": step.why for step in steps if step.effect_ns is None}
    assert unproven == {}, log_stream.getvalue()


def test_a_request_names_its_record(steps: list[StepEntry]) -> None:
    moved, refused, reordered = of_kind(steps, "reassign")
    record = moved.proof["record"]
    assert [one for one in record["replicas"] if one not in record["removing"]] == [1, 2, 4]
    assert refused.proof == {
        "probe": "ok",
        "request": "cancel the reassignment of t-0",
        "answer": "NO_REASSIGNMENT_IN_PROGRESS",
    }
    assert reordered.proof["record"]["replicas"] == list(reordered.nodes)
    elected = next(step for step in of_kind(steps, "elect") if step.parameters["type"] == "preferred")
    assert elected.proof["record"]["leader"] == elected.proof["record"]["replicas"][0]


def test_a_spoilt_volume_says_what_it_lost_once_it_was_mended(steps: list[StepEntry]) -> None:
    for kind in ("read-only", "fail-disk", "wipe-disk"):
        (step,) = of_kind(steps, kind)
        assert step.healed_ns is not None
        assert step.proof["lost_bytes"] > 0
    (full,) = of_kind(steps, "fill-disk")
    assert "lost_bytes" not in full.proof


def test_a_flap_is_as_many_cuts_and_heals(steps: list[StepEntry]) -> None:
    (flap,) = of_kind(steps, "flap")
    assert [part["step"] for part in flap.proof["parts"]] == ["partition", "heal"] * 2
