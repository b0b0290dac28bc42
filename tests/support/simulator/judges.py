"""The judges that may be held against the truth, by name."""

from __future__ import annotations

from collections.abc import Mapping

from simulator.causes_judge import judge_by_files, judge_in_memory
from simulator.compare import Judge
from simulator.runs_judge import judge_as_runs

JUDGES: Mapping[str, Judge] = {"memory": judge_in_memory, "record": judge_by_files, "run": judge_as_runs}
