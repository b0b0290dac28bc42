"""The house style, as a test."""

from __future__ import annotations

import ast
import functools
import re
import subprocess
import sys
import tomllib
import zipfile
from collections.abc import Iterator
from importlib.metadata import packages_distributions
from pathlib import Path

import pytest
from checkout import ROOT

from ebbtide.errors import ExitCode

PACKAGES = ("ebbtide", "cluster", "faults", "workloads", "analysis", "harness")
BESIDE = ("bench", "tools")
"""What a checkout has besides: benchmarks, and what makes pages of docs/."""
MAX_LINES = 400
BUDGET = "docs/decisions/line-budget.md"
SLEEPER = "ebbtide/waiting.py"
PRINTERS = ("harness/cli/", "bench/", "tools/pages/")

# Written in two parts, so that this file does not hold what it looks for.
MACHINE_PATHS = re.compile("/" + r"(?:work|tmp/w|home/\w+|root)/" + r"[\w.]")


def _project_files(*patterns: str) -> list[Path]:
    """Files of the project, also those not yet committed."""
    listing = subprocess.run(
        ["git", "ls-files", "--cached", "--others", "--exclude-standard", "--", *patterns],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=True,
    )
    return [path for name in listing.stdout.splitlines() if (path := ROOT / name).is_file()]


def _modules(*folders: str) -> list[Path]:
    return _project_files(*(f"{folder}/*.py" for folder in folders))


@functools.cache
def _tree(path: Path) -> ast.Module:
    return ast.parse(path.read_text())


def _name(path: Path) -> str:
    return path.relative_to(ROOT).as_posix()


def _calls(tree: ast.Module) -> Iterator[tuple[str, int]]:
    """`(dotted name, line)` of every call, with `import x as y` and `from x import y` traced back to x."""
    origin: dict[str, str] = {}
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            origin |= {alias.asname or alias.name: alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module:
            origin |= {alias.asname or alias.name: f"{node.module}.{alias.name}" for alias in node.names}
    for node in ast.walk(tree):
        if isinstance(node, ast.Call):
            head, _, rest = ast.unparse(node.func).partition(".")
            yield f"{origin.get(head, head)}{'.' if rest else ''}{rest}", node.lineno


def _offenders(call: str, folders: tuple[str, ...], allowed: tuple[str, ...]) -> list[str]:
    return [
        f"{_name(path)}:{line}"
        for path in _modules(*folders)
        if not _name(path).startswith(allowed) and call.rpartition(".")[2] in path.read_text()
        for name, line in _calls(_tree(path))
        if name == call
    ]


def test_what_is_imported_is_asked_for_and_not_only_there_because_something_else_asked() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    # What needs an extra looks for it first, and says how to install it.
    extras = [project["optional-dependencies"][name] for name in ("librdkafka", "stores", "msk")]
    wanted = [*project["dependencies"], *(one for extra in extras for one in extra)]
    asked = {re.split(r"[^\w-]", one)[0].lower() for one in wanted}
    # Their errors come out of what is asked for: PySpark speaks by py4j, docker by requests.
    asked |= {"py4j", "requests"}
    # The last is not installed here.
    providers = {"aws_msk_iam_sasl_signer": ["aws-msk-iam-sasl-signer-python"], **packages_distributions()}
    missing = {
        f"{_name(path)}: {name}"
        for path in _modules(*PACKAGES)
        for name in _imported_packages(_tree(path))
        if name not in sys.stdlib_module_names and name not in PACKAGES
        if not asked & {one.lower().replace("_", "-") for one in providers.get(name, ())}
    }
    assert missing == set()


def _imported_packages(tree: ast.Module) -> Iterator[str]:
    """The first part of what each import names."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from (alias.name.partition(".")[0] for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
            yield node.module.partition(".")[0]


@pytest.mark.parametrize(
    "text",
    ["import time\ntime.sleep(1)", "import time as t\nt.sleep(1)", "from time import sleep as nap\nnap(1)"],
)
def test_a_sleep_is_seen_under_any_name(text: str) -> None:
    assert [name for name, _ in _calls(ast.parse(text))] == ["time.sleep"]


def test_only_the_waiting_module_sleeps() -> None:
    assert _offenders("time.sleep", (*PACKAGES, *BESIDE, "tests"), (SLEEPER,)) == []


def test_only_the_command_and_the_benchmarks_print() -> None:
    assert _offenders("print", PACKAGES, PRINTERS) == []


PROOF_READERS = ("ebbtide/record/steps.py",)
"""The modules that turn the plain values of steps.jsonl into structs."""


def _reads_by_key(tree: ast.AST) -> Iterator[int]:
    """Yield the lines that read a proof, parameters or an anomaly by key, as `x.proof["a"]`, `.get("a")` or `in`."""
    for node in ast.walk(tree):
        match node:
            case ast.Subscript(value=ast.Attribute(attr="proof" | "parameters" | "what")):
                yield node.lineno
            case ast.Call(func=ast.Attribute(attr="get", value=ast.Attribute(attr="proof" | "parameters" | "what"))):
                yield node.lineno
            case ast.Compare(
                ops=[ast.In() | ast.NotIn()], comparators=[ast.Attribute(attr="proof" | "parameters" | "what")]
            ):
                yield node.lineno


@pytest.mark.parametrize(
    "text",
    ['step.proof["to"]', 'step.parameters.get("api", "requests")', '"cuts" in effect.proof', "1 not in s.parameters"],
)
def test_a_read_by_key_is_seen_in_every_form(text: str) -> None:
    assert list(_reads_by_key(ast.parse(text))) == [1]


def test_proofs_parameters_and_anomalies_are_read_as_structs_and_not_by_key() -> None:
    found = [
        f"{_name(path)}:{line}"
        for path in _modules(*PACKAGES, "tools")
        if _name(path) not in PROOF_READERS
        for line in _reads_by_key(_tree(path))
    ]
    assert found == []


def test_a_class_has_a_name_of_its_own() -> None:
    places: dict[str, list[str]] = {}
    for path in _modules(*PACKAGES):
        for name in _classes(_tree(path)):
            places.setdefault(name, []).append(_name(path))
    assert {name: found for name, found in places.items() if len(found) > 1} == {}


def _classes(tree: ast.Module) -> Iterator[str]:
    """The classes of a module, also private ones and those under a condition; nested ones belong to their class."""
    blocks: list[ast.AST] = [tree]
    while blocks:
        for node in ast.iter_child_nodes(blocks.pop()):
            if isinstance(node, ast.ClassDef):
                yield node.name
            elif isinstance(node, ast.If | ast.Try):
                blocks.append(node)


def test_a_class_is_seen_wherever_a_module_defines_it() -> None:
    text = "class A:\n    class B: ...\nif x:\n    class _C: ...\ndef f():\n    class D: ..."
    assert sorted(_classes(ast.parse(text))) == ["A", "_C"]


def test_unit_tests_lie_in_folders_that_mirror_the_packages() -> None:
    unit = ROOT / "tests" / "unit"
    folders = {path.parent for path in unit.rglob("test_*.py")} - {unit}
    assert [_name(folder) for folder in folders if not list((ROOT / folder.relative_to(unit)).glob("*.py"))] == []


def test_no_two_test_modules_have_one_name() -> None:
    # pytest imports them by their names alone.
    names = [path.name for path in _modules("tests") if path.name not in ("conftest.py", "__init__.py")]
    assert sorted(name for name in set(names) if names.count(name) > 1) == []


def test_no_file_is_longer_than_a_person_reads() -> None:
    lengths = {_name(path): path.read_bytes().count(b"\n") for path in _modules(*PACKAGES, *BESIDE, "tests")}
    assert {name: lines for name, lines in lengths.items() if lines > MAX_LINES} == {}


def test_every_module_says_what_it_is_for() -> None:
    silent = [_name(path) for path in _modules(*PACKAGES, *BESIDE) if not ast.get_docstring(_tree(path))]
    # A package that only holds others has nothing to say.
    assert [name for name in silent if (ROOT / name).stat().st_size > 0] == []


def test_nothing_names_a_path_of_one_machine() -> None:
    found = []
    for path in _project_files():
        try:
            lines = path.read_text().splitlines()
        except UnicodeDecodeError:
            continue
        found += [f"{_name(path)}:{number}" for number, line in enumerate(lines, 1) if MACHINE_PATHS.search(line)]
    assert found == []


@pytest.fixture(scope="module")
def documentation() -> str:
    return "\n".join(path.read_text() for path in _project_files("README.md", "docs/*.md"))


@pytest.mark.parametrize("code", ExitCode)
def test_every_exit_code_is_documented(documentation: str, code: ExitCode) -> None:
    assert re.search(rf"^\| {code.value} \| \S", documentation, re.MULTILINE)


def _pyproject() -> dict[str, dict[str, dict[str, dict[str, list[str]]]]]:
    return tomllib.loads((ROOT / "pyproject.toml").read_text())


@pytest.mark.parametrize(
    "marker", [line.split(":")[0] for line in _pyproject()["tool"]["pytest"]["ini_options"]["markers"]]
)
def test_every_marker_is_documented(documentation: str, marker: str) -> None:
    assert re.search(rf"^\| `{marker}` \| \S", documentation, re.MULTILINE)


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> set[str]:
    """Names in the wheel, built from a copy of what git knows (a build leaves its folders in the source)."""
    source, out = tmp_path_factory.mktemp("source"), tmp_path_factory.mktemp("wheel")
    for path in _project_files():
        copy = source / path.relative_to(ROOT)
        copy.parent.mkdir(parents=True, exist_ok=True)
        copy.write_bytes(path.read_bytes())
    done = subprocess.run(
        [sys.executable, "-m", "pip", "wheel", "--quiet", "--no-deps", "--no-build-isolation", "-w", out, source],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    (built,) = out.glob("ebbtide-*.whl")
    return set(zipfile.ZipFile(built).namelist())


def test_the_wheel_holds_every_module_and_every_data_file_of_the_packages(wheel: set[str]) -> None:
    shipped = {_name(path) for path in _project_files(*PACKAGES)}
    assert any(name.endswith(".toml") for name in shipped)
    assert {_in_wheel(name) for name in shipped} - wheel == set()


def _in_wheel(name: str) -> str:
    """The packages that only the command imports travel inside `ebbtide`."""
    return name if name.startswith("ebbtide/") else f"ebbtide/_command/{name}"


def test_the_image_that_is_built_from_the_checkout_gets_every_package() -> None:
    kept = {line.removeprefix("!") for line in (ROOT / ".dockerignore").read_text().splitlines() if line[:1] == "!"}
    assert {*PACKAGES, "pyproject.toml", "README.md", "hatch_build.py"} <= kept


def test_of_the_wheel_only_ebbtide_is_new_in_site_packages(wheel: set[str]) -> None:
    top = {name.split("/")[0] for name in wheel}
    assert {name for name in top if not re.fullmatch(r"ebbtide-[\w.]+\.dist-info", name)} == {"ebbtide"}


def test_the_product_keeps_to_its_budget_of_lines() -> None:
    rows = re.findall(r"^\| \d{4}-\d\d-\d\d \| ([\d,]+) \|", (ROOT / BUDGET).read_text(), re.MULTILINE)
    budget = int(rows[-1].replace(",", ""))
    files = _project_files(*(f"{package}/*.py" for package in PACKAGES))
    lines = sum(file.read_bytes().count(b"\n") for file in files)
    assert lines <= budget, f"{lines - budget} lines above {BUDGET}: take as much away, or say there why not"
