"""Finds the fewest faults with which a history stays wrong."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from simulator.history import TrueHistory
from simulator.script import Script
from simulator.simulation import simulate


def shrink(script: Script, is_wrong: Callable[[TrueHistory], bool]) -> Script:
    """Return the script without every fault that it does not need to stay wrong, and with fewer partitions."""
    if script.setup.partitions > 1 and is_wrong(simulate(smaller := _with_one_partition(script))):
        script = smaller
    goes_on = True
    while goes_on:
        goes_on = False
        for place in reversed(range(len(script.faults))):
            fewer = script.without(place)
            if is_wrong(simulate(fewer)):
                script, goes_on = fewer, True
    return script


def _with_one_partition(script: Script) -> Script:
    faults = tuple(replace(fault, partition=0) for fault in script.faults)
    return replace(script, setup=replace(script.setup, partitions=1), faults=faults)
