"""Which tests a host can run: without root the marked ones are skipped with the reason; as root none may be."""

from __future__ import annotations

import os
from collections.abc import Generator

import pytest

NEED_ROOT = ("live", "root")
NEVER_SKIPPED_AS_ROOT = (*NEED_ROOT, "spark")


def _has_any(item: pytest.Item, markers: tuple[str, ...]) -> bool:
    return any(item.get_closest_marker(name) is not None for name in markers)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Skip what needs root, when there is none."""
    if os.geteuid() == 0:
        return
    for item in items:
        if _has_any(item, NEED_ROOT):
            item.add_marker(pytest.mark.skip(reason="needs root"))


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(
    item: pytest.Item,
) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """A skip as root would be a pass that proved nothing: it fails."""
    report = yield
    if (
        report.skipped
        and not hasattr(report, "wasxfail")
        and os.geteuid() == 0
        and _has_any(item, NEVER_SKIPPED_AS_ROOT)
    ):
        report.outcome = "failed"
        report.longrepr = f"skipped as root, where it must run: {report.longrepr}"
    return report
