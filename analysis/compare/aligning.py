"""Puts the pictures of several runs on one time axis."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from analysis.report.picture.model import RunPicture, StepSpan


class AlignedPictures(msgspec.Struct, frozen=True, kw_only=True):
    """Pictures that begin, end and count their time alike.

    `step` is the step at which the time is 0 in every picture; None: no step fired in all of them,
    and the time is 0 at the start of each run.
    """

    pictures: tuple[RunPicture, ...]
    step: StepSpan | None


def align(pictures: Sequence[RunPicture]) -> AlignedPictures:
    """Return the pictures with the first step that fired in all of them at the same place.

    A step is the same in two runs if it has the same index in the schedule and the same kind.
    """
    by_key = [{(step.index, step.kind): step for step in reversed(one.steps)} for one in pictures]
    common = [step for step in pictures[0].steps if all((step.index, step.kind) in steps for steps in by_key)]
    first = min(common, key=lambda step: step.begin_ns, default=None)
    zeros = [
        one.zero_ns if first is None else steps[first.index, first.kind].begin_ns
        for one, steps in zip(pictures, by_key, strict=True)
    ]
    before_ns = max(zero - one.begin_ns for one, zero in zip(pictures, zeros, strict=True))
    after_ns = max(one.end_ns - zero for one, zero in zip(pictures, zeros, strict=True))
    return AlignedPictures(
        pictures=tuple(
            msgspec.structs.replace(one, zero_ns=zero, begin_ns=zero - before_ns, end_ns=zero + after_ns)
            for one, zero in zip(pictures, zeros, strict=True)
        ),
        step=first,
    )


def common_partition(pictures: Sequence[RunPicture]) -> str | None:
    """Return the partition to compare: one that is blamed in any run, else the first; None: none is in all."""
    names = [{one.name for one in picture.partitions} for picture in pictures]
    shared = [one for picture in pictures for one in picture.partitions if all(one.name in some for some in names)]
    blamed = next((one.name for one in shared if one.is_blamed), None)
    return blamed or (shared[0].name if shared else None)
