"""The judges that may be held against the truth, by name."""

from __future__ import annotations

from collections.abc import Mapping

from simulator.compare import Judge
from simulator.todays_judge import judge_as_today

JUDGES: Mapping[str, Judge] = {"today": judge_as_today}
