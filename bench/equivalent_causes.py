"""The mutants of `bench.mutate_causes` that no history can notice, each with the reason."""

from __future__ import annotations

from collections.abc import Mapping

EQUIVALENT: Mapping[str, str] = {
    "intervals.states_in: states_in -> not applied": "only sentences are made of it",
    "answer._agreed: one.guilty or -1 -> without 1": "only the order of sentences follows from it",
}
