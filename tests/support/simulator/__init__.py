"""Random walks of a small Kafka cluster whose truth is known by construction.

A `Script` (a seed, a setup and a list of faults) is replayed deterministically into a `TrueHistory`: the tables of a
run record, and for each lost record the guilty election with the causes that the protocol allows.
"""

from simulator.drawing import draw_script
from simulator.history import LostRecord, TrueHistory
from simulator.script import Fault, Script, Setup
from simulator.simulation import simulate
from simulator.writing import write_record

__all__ = ["Fault", "LostRecord", "Script", "Setup", "TrueHistory", "draw_script", "simulate", "write_record"]
