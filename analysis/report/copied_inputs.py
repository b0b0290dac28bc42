"""Says what became of the inputs of copiers."""

from __future__ import annotations

from ebbtide.plurals import plural
from ebbtide.record.verdict import Verdict, counts_by_kind
from ebbtide.rules.table import COPIED_TWICE, INPUT_SKIPPED


def copied_inputs_clause(verdict: Verdict) -> str:
    """Return a clause on inputs that were copied twice or skipped, to end a sentence; empty if there are none."""
    counts = counts_by_kind(verdict.anomalies)
    said = [
        f"{plural(count, 'input')} {'is' if count == 1 else 'are'} {fate}"
        for fate, count in (
            ("copied twice", counts.get(COPIED_TWICE, 0)),
            ("skipped by a copier", counts.get(INPUT_SKIPPED, 0)),
        )
        if count
    ]
    return "".join(f"; {one}" for one in said)
