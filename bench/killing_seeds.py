"""Seeds of histories that kill mutants of `bench.mutate_causes` which its first histories leave alive."""

from __future__ import annotations

KILLERS: tuple[int, ...] = ()
KILLERS_DEGRADED: tuple[int, ...] = ()
