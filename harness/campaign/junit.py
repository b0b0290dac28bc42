"""A night as JUnit XML, as CI servers read it."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from xml.etree import ElementTree

from harness.campaign.store import Done
from harness.record.files import write_atomically


def write_junit(path: Path, night: str, dones: Sequence[Done]) -> None:
    """One suite a target, one case a run: a contradiction is a failure, what proved nothing an error."""
    root = ElementTree.Element("testsuites", name=f"ebbtide {night}")
    for target in sorted({str(done.job.target) for done in dones}):
        of_target = [done for done in dones if str(done.job.target) == target]
        suite = ElementTree.SubElement(
            root,
            "testsuite",
            name=f"Kafka {target}",
            tests=str(len(of_target)),
            failures=str(sum(done.ended == "contradicted" and not done.expected for done in of_target)),
            errors=str(sum(done.ended in ("inconclusive", "failed") for done in of_target)),
            skipped="0",
            time=f"{sum(done.took_s for done in of_target):.3f}",
        )
        for done in of_target:
            suite.append(_case(done))
    ElementTree.indent(root)
    write_atomically(path, ElementTree.tostring(root, encoding="utf-8", xml_declaration=True))


def _case(done: Done) -> ElementTree.Element:
    case = ElementTree.Element(
        "testcase",
        classname=f"ebbtide.{done.job.runtime}.{done.job.scenario}",
        name=done.job.key,
        time=f"{done.took_s:.3f}",
    )
    properties = ElementTree.SubElement(case, "properties")
    for name, value in (("record", done.run_id), ("outcome", done.ended), ("seed", done.seed)):
        if value is not None:
            ElementTree.SubElement(properties, "property", name=name, value=str(value))
    if not done.expected:
        tag = "failure" if done.ended == "contradicted" else "error"
        found = ElementTree.SubElement(case, tag, type=done.ended, message=done.why[0] if done.why else done.ended)
        found.text = "\n".join(done.why)
    return case
