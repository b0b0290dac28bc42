"""What to type after a judged run: one answer for the command and the pytest plugin."""

from __future__ import annotations

import shlex
from typing import TYPE_CHECKING

from ebbtide.record.manifest import NO_CONTROLLERS_NAMED
from ebbtide.record.outcomes import lost_counts
from ebbtide.record.verdict import VERDICT

if TYPE_CHECKING:
    from ebbtide.record.manifest import Manifest
    from ebbtide.record.verdict import Verdict


def next_command(record: str, manifest: Manifest, verdict: Verdict) -> str:
    """Return what to type to learn more: the story of the first lost record, or all of a verdict that needs an eye.

    After a watch without the metadata log, no command knows more: the next watch can. The error of a failed run says
    what to do after it. `record` is the path or the address of the run record.
    """
    watch = manifest.watch
    if watch is not None and watch.why_log_ends == NO_CONTROLLERS_NAMED:
        return "ebbtide watch --bootstrap HOST:PORT --controllers HOST:PORT --for 30m    (the metadata log says why)"
    if manifest.failure_next is not None and verdict.outcome == "inconclusive":
        return manifest.failure_next
    if "://" not in record and any(lost_counts(verdict)):
        return f"ebbtide explain {shlex.quote(record)}    (its first lost record, step by step)"
    if verdict.outcome == "as-predicted":
        return "ebbtide scenarios    (other ways to break a cluster)"
    show = "hadoop fs -cat" if "://" in record else "cat"
    return f"{show} {shlex.quote(f'{record}/{VERDICT}')}    (the whole verdict)"
