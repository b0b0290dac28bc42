"""What is rendered into a .properties file, java.util.Properties reads back; what it could not, is refused."""

from __future__ import annotations

import ast
import json
import shutil
import string
import subprocess
from pathlib import Path

import pytest
from checkout import ROOT
from hypothesis import example, given
from hypothesis import strategies as st

from cluster.host.bridge import address_of
from cluster.runtime import jvm
from cluster.runtime.properties import plan_cluster, properties_of
from ebbtide.errors import UsageError
from ebbtide.properties_file import is_writable, parse, render
from ebbtide.scenario.model import ClusterSpec

PACKAGES = ("ebbtide", "cluster", "faults", "workloads", "analysis", "harness")

TRICKY = {
    "log.dirs": "/volume/data",
    "log\\u002edirs": "/elsewhere",
    "log.dirs\\": "/elsewhere",
    "log.dirs ": "/elsewhere",
    " log.dirs": "/elsewhere",
    "log.dirs=/elsewhere": "x",
    "log.dirs:": "/elsewhere",
    "#comment": "1",
    "!comment": "2",
    "continued": "value\\",
    "escaped": "\\u000alog.dirs=/elsewhere",
    "newline": "a\\nlog.dirs=/elsewhere",
    "windows": "C:\\temp\\new",
    "blanks": "  two before, two behind  ",
    "equal": "=:#!",
    "empty": "",
    "rack": "Zürich",
    "no break": "\u00a0a\u00a0",
    "Größe": "1",
    "beyond 16 bits": "\U0001f30a",
}

JAVA = """
import java.io.*;
import java.nio.file.*;
import java.util.*;

class ReadBack {
    static String hex(String text) {
        StringBuilder units = new StringBuilder();
        for (char unit : text.toCharArray()) units.append(String.format("%04x", (int) unit));
        return '"' + units.toString() + '"';
    }

    public static void main(String[] arguments) throws IOException {
        Properties read = new Properties();
        try (InputStream file = Files.newInputStream(Path.of(arguments[0]))) { read.load(file); }
        List<String> pairs = new ArrayList<>();
        for (String name : read.stringPropertyNames()) pairs.add(hex(name) + ":" + hex(read.getProperty(name)));
        System.out.println("{" + String.join(",", pairs) + "}");
    }
}
"""

written = st.text(st.one_of(st.characters(exclude_categories=("Cc", "Cs", "Zl", "Zp")), st.sampled_from("\\=:#! u0n")))


@given(st.dictionaries(written.filter(bool), written))
@example(TRICKY)
def test_what_is_rendered_is_read_back_as_it_was_given(properties: dict[str, str]) -> None:
    text = render(properties)
    assert text.isascii()
    assert text.count("\n") == len(properties)
    assert parse(text) == properties


@pytest.mark.skipif(shutil.which("javac") is None, reason="needs a JDK, which compiles a source file that it is given")
def test_java_reads_the_same(tmp_path: Path) -> None:
    (tmp_path / "ReadBack.java").write_text(JAVA)
    # What nobody renders shows that the reading is as lenient as Java is.
    loose = "a = 1\n! no\n\n  b\\ c : 2\\\n   3\nlog\\u002edirs /x\rd\\\\=\\t\\q\n#e\\\nf=1\\\\\ng"
    for text in (render(TRICKY), loose):
        (tmp_path / "file").write_text(text, "ascii")
        java = subprocess.run(
            ["java", str(tmp_path / "ReadBack.java"), str(tmp_path / "file")], capture_output=True, text=True
        )
        assert java.returncode == 0, java.stderr
        found = {_text(name): _text(value) for name, value in json.loads(java.stdout).items()}
        assert found == parse(text)
        assert text == loose or found == TRICKY


@pytest.mark.parametrize("text", ["a=\\u", "a=\\u00", "a=\\u00g0", "\\uX=1"])
def test_an_escape_that_java_refuses_is_refused(text: str) -> None:
    with pytest.raises(UsageError, match="no four hexadecimal digits"):
        parse(text)


def _text(units: str) -> str:
    return bytes.fromhex(units).decode("utf-16-be")


CONTROLS = [chr(code) for code in (*range(0x20), *range(0x7F, 0xA0), 0x2028, 0x2029, 0xD800, 0xDFFF)]


@pytest.mark.parametrize("control", CONTROLS, ids=lambda one: f"{ord(one):04x}")
def test_no_control_character_gets_into_a_properties_file(control: str) -> None:
    assert not is_writable(f"a{control}b")
    for properties in ({f"a{control}b": "1"}, {"a": f"1{control}log.dirs=/elsewhere"}):
        with pytest.raises(UsageError, match="a properties file cannot hold this property"):
            render(properties)


def test_a_property_without_a_name_is_refused() -> None:
    with pytest.raises(UsageError, match="cannot hold"):
        render({"": "1"})


def test_every_printable_character_of_ascii_is_writable() -> None:
    assert is_writable(string.ascii_letters + string.digits + string.punctuation + " ")


def test_a_node_gets_its_folder_whatever_the_folder_is_called() -> None:
    plan = plan_cluster(ClusterSpec(), address_of)
    folder = Path("/records/jürgen/my runs\\1")
    assert parse(render(properties_of(plan, plan.nodes[1], [folder])))["log.dirs"] == str(folder)


def test_the_node_that_the_class_archive_is_made_from_gets_all_of_its_properties(tmp_path: Path) -> None:
    found = parse(render(jvm._training_properties(tmp_path)))
    assert found["process.roles"] == "broker,controller"
    assert found["log.dirs"] == str(tmp_path / "data")
    assert found["listeners"].startswith("PLAINTEXT://127.0.0.1:")


def test_no_other_code_puts_a_properties_file_together() -> None:
    """Whatever is written to a path that is called a properties file comes from `render`."""
    found = []
    texts = ((path, path.read_text()) for package in PACKAGES for path in (ROOT / package).rglob("*.py"))
    for path, text in ((path, text) for path, text in texts if "write_text" in text):
        for call in ast.walk(ast.parse(text)):
            if isinstance(call, ast.Call) and isinstance(call.func, ast.Attribute) and call.func.attr == "write_text":
                said = ast.unparse(call)
                if "properties" in said.lower():
                    found.append((path.name, ast.unparse(call.args[0]).partition("(")[0]))
    assert sorted(found) == [("cluster.py", "render"), ("java_start.py", "render"), ("jvm.py", "render")]
