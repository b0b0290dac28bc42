"""Writes a night as JUnit XML, for CI servers."""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path
from xml.etree import ElementTree

from ebbtide.record.files import write_atomically
from harness.nightly.job import Job
from harness.nightly.store import FinishedJob, SkippedJob

_NO_XML = re.compile(r"[^\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")
"""Characters that XML 1.0 cannot write; messages of Kafka and of the host contain NUL and ESC."""


def write_junit(path: Path, night: str, finished: Sequence[FinishedJob], skipped: Sequence[SkippedJob] = ()) -> None:
    """Write one suite for each target and one case for each run.

    A contradicted run is a failure, an inconclusive or failed run is an error, and a job that did not run is
    a skipped case. A contradiction by a known bug passes.
    """
    root = ElementTree.Element("testsuites", name=f"ebbtide {night}")
    jobs = [*(done.job for done in finished), *(one.job for one in skipped)]
    for target in sorted({str(job.target) for job in jobs}):
        of_target = [done for done in finished if str(done.job.target) == target]
        left_out = [one for one in skipped if str(one.job.target) == target]
        suite = ElementTree.SubElement(
            root,
            "testsuite",
            name=f"Kafka {target}",
            tests=str(len(of_target) + len(left_out)),
            failures=str(sum(done.ended == "contradicted" and not done.is_expected for done in of_target)),
            errors=str(sum(done.ended in ("inconclusive", "failed") for done in of_target)),
            skipped=str(len(left_out)),
            time=f"{sum(done.took_s for done in of_target):.3f}",
        )
        for done in of_target:
            _add_run(suite, done)
        for one in left_out:
            ElementTree.SubElement(_add_case(suite, one.job, 0.0), "skipped", message=one.why)
    for element in root.iter():
        element.attrib.update({name: _NO_XML.sub("\ufffd", value) for name, value in element.attrib.items()})
        element.text = None if element.text is None else _NO_XML.sub("\ufffd", element.text)
    ElementTree.indent(root)
    write_atomically(path, ElementTree.tostring(root, encoding="utf-8", xml_declaration=True))


def _add_case(suite: ElementTree.Element, job: Job, took_s: float) -> ElementTree.Element:
    return ElementTree.SubElement(
        suite, "testcase", classname=f"ebbtide.{job.runtime}.{job.scenario}", name=job.key, time=f"{took_s:.3f}"
    )


def _add_run(suite: ElementTree.Element, done: FinishedJob) -> None:
    case = _add_case(suite, done.job, done.took_s)
    properties = ElementTree.SubElement(case, "properties")
    for name, value in (
        ("record", done.run_id),
        ("outcome", done.word),
        ("seed", done.seed),
        *done.figures.items(),
    ):
        if value is not None:
            ElementTree.SubElement(properties, "property", name=name, value=str(value))
    if not done.is_expected:
        tag = "failure" if done.ended == "contradicted" else "error"
        found = ElementTree.SubElement(case, tag, type=done.ended, message=done.why[0] if done.why else done.ended)
        found.text = "\n".join(done.why)
