"""The judges that may be held against the truth, by name."""

from __future__ import annotations

from collections.abc import Mapping

from simulator.compare import Judge
from simulator.new_judge import judge_by_files, judge_in_memory
from simulator.todays_judge import judge_as_today

JUDGES: Mapping[str, Judge] = {"new": judge_in_memory, "new-by-files": judge_by_files, "today": judge_as_today}
