"""The page allows nothing but its own script, by its hash."""

from __future__ import annotations

import re
from base64 import b64encode
from hashlib import sha256
from pathlib import Path

from judge_records import last_replica_standing
from records import as_record

from analysis.report.html import render
from analysis.report.model import build


def test_the_page_loads_nothing_and_runs_its_own_script_only(tmp_path: Path) -> None:
    story = last_replica_standing(tmp_path)
    verdict = story.judge()
    page = render(build(as_record(story.record, story.manifest), verdict))
    (script,) = re.findall(r"<script>(.*?)</script>", page, re.DOTALL)
    allowed = b64encode(sha256(script.encode()).digest()).decode()
    assert f"default-src 'none'; style-src 'unsafe-inline'; script-src 'sha256-{allowed}'\"" in page
