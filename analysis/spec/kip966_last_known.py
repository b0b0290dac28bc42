"""KIP-966 with a repair of its unclean recovery: LastKnownElr members go first.

The text elects the highest last leader epoch, then the longest log, among all replies. That may be
a replica outside LastKnownElr, whose log has an uncommitted record of a newer epoch and lacks
committed records (docs/findings/longest-log.md). No KIP and no release has this repair.
"""

from __future__ import annotations

from analysis.spec.kip966 import Kip966


class Kip966LastKnown(Kip966):
    """The text, but another replica is elected only if no LastKnownElr member replied."""

    name = "kip966_last_known"
    source = "docs/findings/longest-log.md, a repair of KIP-966's unclean recovery"
    last_known_first = True
