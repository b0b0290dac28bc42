"""What `ebbtide cluster down` and `ebbtide cluster fault` print with --json."""

from __future__ import annotations

from typing import Literal

import msgspec

from ebbtide.record.steps import StepEntry

StepResult = Literal["took-effect", "armed", "no-proof", "never-fired"]
"""The effect of a step. `armed`: a wire rule that no request has met yet."""


class FaultOutput(msgspec.Struct, frozen=True, kw_only=True):
    """A step by hand: its entry as in steps.jsonl, and what it says about the effect.

    `armed` is a wire rule that no request has met yet.
    """

    result: StepResult
    step: StepEntry


class DownOutput(msgspec.Struct, frozen=True, kw_only=True):
    """A cluster that was stopped; `has_run`: `record` has a complete run, which `ebbtide analyze` judges."""

    name: str
    run_id: str
    record: str
    has_run: bool
