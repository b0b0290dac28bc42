"""Says what a bench measured on, so that a page of figures names its code and its host."""

from __future__ import annotations

import os

import psutil

from ebbtide.version import version_text


def measured_on() -> str:
    """Return a line with the version, the commit, and the cores and memory of this host."""
    gib = psutil.virtual_memory().total / (1 << 30)
    return f"Ebbtide {version_text()}, {len(os.sched_getaffinity(0))} cores, {gib:.0f} GiB"
