"""Says which groups of copiers were promised exactly one copy of each input."""

from __future__ import annotations

from collections.abc import Mapping

from ebbtide.scenario.model import CopiedOffsets, Scenario


def copied_offsets(scenario: Scenario | None) -> dict[str, CopiedOffsets] | None:
    """Return when the copiers of each group commit its offsets; None without a scenario."""
    if scenario is None:
        return None
    found: dict[str, CopiedOffsets] = {}
    for one in scenario.producers:
        if one.copies is not None and one.group is not None and found.get(one.group) != "after-transaction":
            found[one.group] = one.copied_offsets
    return found


def promised_groups(offsets: Mapping[str, CopiedOffsets] | None) -> set[str]:
    """Return the groups whose copiers all commit their offsets in their transactions."""
    return {group for group, when in (offsets or {}).items() if when == "in-transaction"}
