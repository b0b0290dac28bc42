"""Seeds of histories that kill mutants of `bench.mutate_causes` which its first histories leave alive."""

from __future__ import annotations

KILLERS: tuple[int, ...] = (
    17_010_352,
    17_010_403,
    17_010_647,
    17_011_403,
    21_000_302,
    21_003_625,
    21_010_001,
    21_019_787,
    23_100_640,
)
KILLERS_DEGRADED: tuple[int, ...] = (18_010_785, 18_011_057, 22_013_129)
