"""The mutants of `bench.mutate_causes` that no history can notice, each with the reason."""

from __future__ import annotations

from collections.abc import Mapping

EQUIVALENT: Mapping[str, str] = {}
