"""A project that has the pytest plugin, with a stand-in for its runner."""

from __future__ import annotations

from pathlib import Path

import pytest

_CONFTEST = """
import pytest
from fake_runner import FakeRunner
from ebbtide.pytest_plugin.session import RUNNER

@pytest.hookimpl(tryfirst=True)
def pytest_configure(config):
    config.stash[RUNNER] = FakeRunner({runner})

def pytest_unconfigure(config):
    runner = config.stash[RUNNER]
    print("asked:", runner.asked, "still open:", len(runner.open))
"""

_REWRITTEN = "ignore::pytest.PytestAssertRewriteWarning"
"""The process that runs such a project has imported the plugin before."""


class Project:
    """A project that has the plugin, strict markers, and warnings as errors."""

    def __init__(self, pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setenv("PYTEST_DISABLE_PLUGIN_AUTOLOAD", "1")
        monkeypatch.delenv("PYTEST_XDIST_WORKER_COUNT", raising=False)
        self._pytester, self._monkeypatch = pytester, monkeypatch
        pytester.makeini(f"[pytest]\naddopts = --strict-markers --strict-config -W error -W {_REWRITTEN}\n")
        self.runner("")

    def runner(self, arguments: str) -> None:
        self._pytester.makeconftest(_CONFTEST.replace("{runner}", arguments))

    def run(self, source: str, *options: str, in_process: bool = True) -> pytest.RunResult:
        """Only in a process of its own does the session capture what it prints itself, as for a user."""
        self._pytester.makepyfile(f"import pytest\nfrom ebbtide import broker, leader\n\n{source}")
        words = ("-p", "ebbtide.pytest_plugin.plugin", "-rs", *options)
        if in_process:
            return self._pytester.runpytest_inprocess(*words)
        self._monkeypatch.setenv("PYTHONPATH", str(Path(__file__).parent))
        return self._pytester.runpytest_subprocess(*words)

    @property
    def folder(self) -> Path:
        return self._pytester.path


@pytest.fixture
def project(pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch) -> Project:
    """For a module that has `pytester`."""
    return Project(pytester, monkeypatch)
