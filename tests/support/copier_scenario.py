"""The copier of the tests: producer 2 copies t to u for the group copiers, in transactions."""

from __future__ import annotations

from pathlib import Path

COPIER = """
[[producers]]
id = 2
topic = "u"
client = "java"
transactional = true
txn_records = 20
copies = "t"
group = "copiers"
"""


def add_copier(record: Path) -> None:
    """Add the copier, its topic and the offsets of its group to the scenario of a record."""
    scenario = record / "scenario.toml"
    scenario.write_text(f"{scenario.read_text()}\n[topics.u]\n[topics.__consumer_offsets]{COPIER}")
