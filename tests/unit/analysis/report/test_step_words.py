"""The table of faults says what its steps waited for, and what proves them, in words."""

from __future__ import annotations

from pathlib import Path

from judge_records import Story
from records import as_record

from analysis.report.model import build
from ebbtide.record.steps import StepEntry


def test_triggers_and_proofs_are_in_words_and_not_in_keys(tmp_path: Path) -> None:
    story = Story(tmp_path)
    story.state(1)
    triggers = ({"isr": {"partition": "t-0", "size": 1}}, {"leader_is": {"partition": "t-0", "broker": "none"}})
    proof = {"probe": "ok", "volume_down": True, "unsynced_there": False}
    story.steps = [
        StepEntry(index=at, step="kill", nodes=(2,), fired_ns=1, effect_ns=2, trigger=trigger, proof=proof)
        for at, trigger in enumerate(triggers)
    ]
    steps = build(as_record(story.record, story.manifest), story.judge()).steps
    assert [step.trigger for step in steps] == ["isr of t-0: size 1", "leader_is of t-0: broker none"]
    assert steps[0].proof == "volume down yes, unsynced there no"
