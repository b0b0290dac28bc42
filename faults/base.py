"""What a fault leaves behind: the proof that it took effect."""

from __future__ import annotations

from typing import Any

import msgspec


class Effect(msgspec.Struct, frozen=True, kw_only=True):
    """The outcome of one injected fault.

    `effect_ns` is when the probe saw the effect; None: the probe did not see it, and the run proves
    nothing (inconclusive), with the reason in `why`. `proof` carries `"probe": "ok"` or `"failed"` and the
    figures that were measured.
    """

    effect_ns: int | None
    proof: dict[str, Any]
    why: str | None = None
