"""The example of an application developer's project: each bug is named, and the fixed programs pass."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path
from xml.etree import ElementTree

import pytest
from host_state import HostState, left_after
from live.foreign_venv import ROOT, make_venv

from cluster.jars.releases import ensure

pytestmark = [pytest.mark.live, pytest.mark.slow]

MARKER = "customer-4711"
BUGS = {
    "test_a_confirmed_order_survives_the_loss_of_its_leader[4.3.1-python]": "your producer (client.id orders-python, "
    "acks=1) got acks for ",
    "test_a_confirmed_order_survives_the_loss_of_its_leader[4.3.1-java]": "your producer (client.id orders-java, "
    "acks=1) got acks for ",
    "test_every_order_is_shipped_though_the_shipper_dies[4.3.1]": "your group shipping committed ",
    "test_every_order_gets_an_invoice_though_transactions_abort[4.3.1]": "your group invoicing committed ",
}


@pytest.fixture(scope="module")
def python(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The interpreter of an environment with Ebbtide's wheel and the library of the application."""
    return make_venv(tmp_path_factory.mktemp("own"), "pytest", "confluent-kafka")


@pytest.fixture
def project(tmp_path: Path) -> Iterator[Path]:
    """The example, copied; afterwards no payload is left anywhere, and nothing of a cluster."""
    ensure(["4.3.1"])
    before = HostState.now()
    folder = Path(shutil.copytree(ROOT / "examples" / "own-clients", tmp_path / "project"))
    yield folder
    records = [path.name for path in (folder / "runs").iterdir()]
    assert left_after(before, str(tmp_path), *records) == []
    sources = [path for path in folder.iterdir() if path.suffix in (".py", ".java")]
    for path in sources:
        path.unlink()
    shutil.rmtree(folder / "__pycache__", ignore_errors=True)
    found = subprocess.run(["grep", "-rl", MARKER, tmp_path], capture_output=True, text=True, check=False)
    assert found.stdout == ""


def results(python: Path, project: Path, **environment: str) -> dict[str, str]:
    """Run the tests of the project; by test, the message of its failure, or nothing."""
    own = {name: word for name, word in os.environ.items() if not name.startswith(("PYTHONPATH", "PYTEST_"))}
    subprocess.run(
        [python, "-m", "pytest", "--ebbtide-runtime=local", "--junitxml=junit.xml"],
        cwd=project,
        env={**own, **environment},
        check=False,
        timeout=900,
    )
    return {
        case.attrib["name"]: " ".join(f"{end.get('message')}\n{end.text}" for end in case if end.tag != "properties")
        for case in ElementTree.parse(project / "junit.xml").iter("testcase")
    }


def test_each_bug_is_named_in_the_message_of_the_test(python: Path, project: Path) -> None:
    found = results(python, project)
    assert found.keys() == BUGS.keys()
    for name, bug in BUGS.items():
        assert bug in found[name], found[name]


def test_the_fixed_programs_pass(python: Path, project: Path) -> None:
    assert results(python, project, ORDERS="fixed") == dict.fromkeys(BUGS, "")
