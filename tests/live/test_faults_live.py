"""Every kind of step that the catalogue's demos do not play, on one real cluster: each takes effect and proves it."""

from __future__ import annotations

import io
from pathlib import Path

import pytest
from live.torn_log import check_torn_log_is_cut
from rich.console import Console

from ebbtide.record.files import RecordFolder
from ebbtide.record.steps import StepEntry, read_steps, split_composed_steps
from ebbtide.scenario.parse import load
from ebbtide.scenario.steps.table import STEP_TYPES
from harness.runner.display import PlainDisplay
from harness.runner.run import RunRequest, run_scenario

pytestmark = pytest.mark.live

SCENARIO = Path(__file__).with_name("every_step.toml")
MOMENT_NS = 500_000_000
"""A kill, or the start of a process, takes some milliseconds; a busy host may take longer."""


@pytest.fixture(scope="module")
def log_stream() -> io.StringIO:
    return io.StringIO()


@pytest.fixture(scope="module")
def record(tmp_path_factory: pytest.TempPathFactory, log_stream: io.StringIO) -> Path:
    request = RunRequest(
        scenario=load(SCENARIO), kafka="4.3.1", seed=1, runs=tmp_path_factory.mktemp("every-step") / "runs"
    )
    return run_scenario(request, PlainDisplay(Console(file=log_stream, width=200)))


@pytest.fixture(scope="module")
def steps(record: Path) -> list[StepEntry]:
    return read_steps(RecordFolder(record)) or []


def of_kind(steps: list[StepEntry], kind: str) -> list[StepEntry]:
    return [step for step in steps if step.step == kind]


def test_every_step_took_effect(steps: list[StepEntry], log_stream: io.StringIO) -> None:
    unproven = {f"{step.index} {step.step}": step.why for step in steps if step.effect_ns is None}
    assert unproven == {}, log_stream.getvalue()


def test_every_proof_is_read_as_its_kind_declares_it(steps: list[StepEntry]) -> None:
    kinds = [(step, STEP_TYPES[step.step].Proof) for step in split_composed_steps(steps)]
    assert {step.index: unread for step, proof in kinds if (unread := step.figures(proof).unread)} == {}


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


def test_a_broker_cuts_its_torn_log_where_it_is_whole(record: Path, steps: list[StepEntry]) -> None:
    (torn,) = of_kind(steps, "torn-write")
    check_torn_log_is_cut(record, torn)


def test_a_flap_is_as_many_cuts_and_heals(steps: list[StepEntry]) -> None:
    (flap,) = of_kind(steps, "flap")
    assert [part["step"] for part in flap.proof["parts"]] == ["partition", "heal"] * 2


def test_each_node_of_a_step_has_its_own_times(steps: list[StepEntry]) -> None:
    (kill,), start = of_kind(steps, "kill"), of_kind(steps, "start")[-1]
    for step, spans in (
        (kill, [kill.of_node[node].ended for node in kill.nodes]),
        (start, [start.of_node[node].started for node in start.nodes]),
    ):
        first, second = spans
        assert first is not None
        assert second is not None
        moments = [step.fired_ns, first.first_ns, first.last_ns, second.first_ns, second.last_ns, step.effect_ns]
        assert moments == sorted(moments, key=lambda at: at or 0)
        assert max(span.last_ns - span.first_ns for span in (first, second)) < MOMENT_NS


def test_a_log_goes_after_its_process_ended_and_a_node_on_a_dead_volume_ends_later(steps: list[StepEntry]) -> None:
    (wiped,), (dead,), (full,) = (of_kind(steps, kind) for kind in ("wipe-disk", "read-only", "fill-disk"))
    of_wiped, of_dead = wiped.of_node[wiped.nodes[0]], dead.of_node[dead.nodes[0]]
    assert of_wiped.ended is not None
    assert of_wiped.log_gone is not None
    assert of_wiped.ended.last_ns <= of_wiped.log_gone.first_ns
    assert of_dead.log_gone is not None
    assert dead.fired_ns <= of_dead.log_gone.first_ns <= of_dead.log_gone.last_ns <= dead.effect_ns
    assert of_dead.ended is not None
    assert of_dead.ended.first_ns >= of_dead.log_gone.first_ns
    assert all(times.log_gone is None for times in full.of_node.values())
