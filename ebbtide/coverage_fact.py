"""Says what a coverage fact is. Whoever counts one declares it, and `ebbtide.rules.table` has all of them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal

import msgspec

About = Literal["log", "steps", "clients", "below-min-isr", "while-alter-partition-held", "while-recovering", "actions"]

ABOUT: Mapping[About, str] = {
    "log": "In the metadata log",
    "steps": "What was done",
    "clients": "What clients did and saw",
    "below-min-isr": "Below min ISR, while the leader surely knew of it (as for `hw-frozen-below-min-isr`)",
    "while-alter-partition-held": "While a leader's AlterPartition was held, from the last cut in that time on",
    "while-recovering": "While a partition was RECOVERING and its leader surely knew of it",
    "actions": "Transitions; left out where the model could check none",
}
"""What facts are about, in the order of the page."""


class Fact(msgspec.Struct, frozen=True):
    """A coverage fact: what it counts, and the clause or bug that it bears on.

    Its 0 means something once a fact of `needs` came about. All but the name has a default, as in
    `ebbtide.rules.table`.
    """

    about: About = "log"
    name: str = ""
    counts: str = ""
    clause: str = ""
    needs: tuple[str, ...] = ()
