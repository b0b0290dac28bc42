"""The cache of Kafka releases, with a Maven of three lines in place of the real one."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from checkout import ROOT

from cluster.jars import digests, maven
from cluster.jars.releases import cached_releases, digests_to_record, ensure, fetch, jars_of
from ebbtide.errors import ExitCode, HarnessError, UsageError
from ebbtide.releases.known_releases import KNOWN, nearest_release, parse_version
from harness.cli import kafka_image as image
from harness.cli.main import main

MAVEN = """#!/bin/bash
echo run "$@" >> "$FAKE_HOME/calls"
echo "$MAVEN_OPTS" > "$FAKE_HOME/options"
[ -f "$FAKE_HOME/says" ] && { cat "$FAKE_HOME/says"; exit 1; }
for argument; do case $argument in
  --file=*) pom=${argument#*=} ;;
  -DoutputDirectory=*) out=${argument#*=} ;;
esac; done
kafka=$(sed -n 's:.*<artifactId>kafka_2.13</artifactId><version>\\([^<]*\\).*:\\1:p' "$pom")
binding=$(sed -n 's:.*<artifactId>slf4j-simple</artifactId><version>\\([^<]*\\).*:\\1:p' "$pom")
interface=$(cat "$FAKE_HOME/interface" 2>/dev/null || echo "$binding")
sleep "${FAKE_SECONDS:-0}"
for jar in kafka_2.13-$kafka slf4j-simple-$binding slf4j-api-$interface; do
  echo "content of $jar" > "$out/$jar.jar"; echo "[INFO] Copying $jar.jar to $out/$jar.jar"
done
"""

# What Maven 3.8.7 prints, one case each; addresses are placeholders.
SAYS = {
    "unknown": "[ERROR] Failed to execute goal on project release: Could not resolve dependencies: "
    "Could not find artifact org.apache.kafka:kafka_2.13:jar:9.9.9 in central (x://repository) -> [Help 1]",
    "partly there": "[ERROR] Failed to execute goal on project release: Could not resolve dependencies: "
    "Could not find artifact org.apache.kafka:kafka-tools-api:jar:9.9.9 in central (x://repository) -> [Help 1]",
    "no network": "[ERROR] Plugin could not be resolved: Could not transfer artifact p:q:pom:3.8.1 from/to central "
    "(x://repository): transfer failed for x://repository/q.pom: Unknown host repository: "
    "Temporary failure in name resolution -> [Help 1]",
    "bad checksum": "[ERROR] Could not transfer artifact a:b:jar:1 from/to central (x://repository): "
    "Checksum validation failed, expected 1 but is 2 -> [Help 1]",
    "no space": "[ERROR] Error copying artifact to target: No space left on device -> [Help 1]",
    "offline": "[ERROR] Cannot access central (x://repository) in offline mode and the artifact a:b:jar:1 has not "
    "been downloaded from it before. -> [Help 1]",
    "something else": "[INFO] Building\n[ERROR] The goal is on fire",
    "in colour": "\x1b[0m[ERROR] \x1b[0mThe goal is on fire\n[ERROR]\n",
}


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty cache, and a PATH whose `mvn` and `java` are fakes; `says` there makes Maven fail so."""
    bin_ = tmp_path / "bin"
    bin_.mkdir()
    _script(bin_ / "mvn", MAVEN)
    _script(bin_ / "java", "#!/bin/bash\necho 'openjdk version \"17.0.15\" 2025-04-15' >&2\n")
    monkeypatch.setenv("PATH", f"{bin_}:/usr/bin:/bin")
    monkeypatch.delenv("JAVA_HOME", raising=False)
    monkeypatch.setenv("FAKE_HOME", str(tmp_path))
    monkeypatch.setenv("EBBTIDE_CACHE", str(tmp_path / "cache"))
    monkeypatch.setattr(digests, "known_digests", dict)
    return tmp_path


def _script(path: Path, text: str) -> None:
    path.write_text(text)
    path.chmod(0o755)


def _calls(home: Path) -> list[str]:
    calls = home / "calls"
    return calls.read_text().splitlines() if calls.exists() else []


def test_a_fetched_release_is_used_again_without_maven(home: Path) -> None:
    fetch("4.3.1")
    (home / "bin" / "mvn").unlink()
    names = [path.name for path in jars_of("4.3.1")]
    assert names == ["kafka_2.13-4.3.1.jar", "slf4j-api-1.7.36.jar", "slf4j-simple-1.7.36.jar"]
    assert [release.version for release in ensure(["4.3.1"])] == ["4.3.1"]
    assert all(path.is_file() for path in jars_of("4.3.1"))


@pytest.mark.parametrize("words", [["3.9.1", "4.3.1"], ["3.9.1,4.3.1"], ["3.9.1,", "4.3.1", "3.9.1"]], ids=" ".join)
def test_releases_to_fetch_are_separated_by_spaces_or_commas(home: Path, words: list[str]) -> None:
    assert main(["kafka", "fetch", *words]) == ExitCode.AS_PREDICTED
    assert [release.version for release in cached_releases()] == ["3.9.1", "4.3.1"]


@pytest.mark.parametrize("action", ["build", "remove"])
def test_releases_of_images_are_separated_as_those_to_fetch(action: str, monkeypatch: pytest.MonkeyPatch) -> None:
    taken: list[list[str]] = []
    monkeypatch.setattr(image, f"_{action}", lambda versions, **_: (taken.append(versions), ExitCode.AS_PREDICTED)[1])
    for words in (["3.9.1", "4.3.1"], ["3.9.1,4.3.1"], ["3.9.1,", "4.3.1", "3.9.1"]):
        assert main(["kafka", "image", action, *words]) == ExitCode.AS_PREDICTED
    assert taken == [["3.9.1", "4.3.1"]] * 3
    assert main(["kafka", "image", action, "3.9.1,x"]) == ExitCode.USAGE


def test_in_a_user_namespace_maven_works_in_the_users_home(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MAVEN_OPTS", "-Xmx1g")
    fetch("4.3.1")
    assert (home / "options").read_text() == "-Xmx1g\n"
    monkeypatch.setenv("HOME", str(home))
    monkeypatch.setattr(maven, "current_privileges", lambda: "user namespace")
    fetch("3.9.1")
    assert (home / "options").read_text() == f"-Duser.home={home} -Xmx1g\n"


def test_for_a_user_without_an_entry_in_etc_passwd_maven_works_in_the_home_that_HOME_names(
    home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MAVEN_OPTS", "-Xmx1g")
    monkeypatch.setenv("HOME", str(home))
    monkeypatch.setattr(maven, "account_name", lambda: None)
    fetch("4.3.1")
    assert (home / "options").read_text() == f"-Duser.home={home} -Xmx1g\n"


def test_a_release_with_another_slf4j_gets_the_binding_that_it_accepts(home: Path) -> None:
    (home / "interface").write_text("2.0.17")
    assert "slf4j-simple-2.0.17.jar" in fetch("4.3.1").jars
    assert "slf4j-simple-1.7.36.jar" not in fetch("4.3.1").jars


def test_maven_checks_checksums_and_gets_the_users_arguments(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MAVEN_ARGS", "-s 'my settings.xml'")
    fetch("4.3.1")
    (call,) = _calls(home)
    assert call.startswith("run -s my settings.xml ")
    assert "--strict-checksums" in call


@pytest.mark.parametrize("damage", ["shorter", "missing", "added", "listing"])
def test_a_damaged_release_is_refused_at_use_and_replaced_by_a_fetch(home: Path, damage: str) -> None:
    release = fetch("4.3.1")
    jar = release.jar_paths[0]
    match damage:
        case "shorter":
            jar.write_text("x")
        case "missing":
            jar.unlink()
        case "added":
            jar.with_name("extra.jar").touch()
        case _:
            (release.dir / "release.json").write_text("{")
    with pytest.raises(HarnessError, match="damaged") as refused:
        jars_of("4.3.1")
    assert refused.value.next is not None
    assert "ebbtide kafka fetch 4.3.1" in refused.value.next
    ensure(["4.3.1"])
    assert jars_of("4.3.1")[0].read_text() == "content of kafka_2.13-4.3.1\n"
    assert len(_calls(home)) == 2


def test_changed_content_of_the_same_size_is_found_by_hash_and_replaced_by_a_fetch(home: Path) -> None:
    jar = fetch("4.3.1").jar_paths[0]
    jar.write_text(jar.read_text().replace("content", "CONTENT"))
    assert cached_releases()[0].problem is None
    with pytest.raises(HarnessError, match="damaged") as refused:
        jars_of("4.3.1")
    assert "SHA-256" in str(refused.value.got)
    assert ensure(["4.3.1"])[0].problem is None
    assert jars_of("4.3.1") == [jar, *jars_of("4.3.1")[1:]]


def test_two_fetches_at_once_run_maven_once(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FAKE_SECONDS", "0.3")
    command = [sys.executable, "-c", "from cluster.jars.releases import fetch; fetch('4.9.1')"]
    both = [subprocess.Popen(command) for _ in range(2)]
    assert [process.wait(timeout=30) for process in both] == [0, 0]
    assert len(_calls(home)) == 1
    assert len(jars_of("4.9.1")) == 3


def test_what_a_killed_fetch_left_is_no_release_and_goes_with_the_next_fetch(home: Path) -> None:
    left = home / "cache" / "kafka" / ".fetch-dead" / "new" / "jars"
    left.mkdir(parents=True)
    assert cached_releases() == []
    fetch("4.3.1")
    assert not left.exists()


@pytest.mark.parametrize(
    ("says", "sentence", "code"),
    [
        ("unknown", "no such Kafka release", ExitCode.USAGE),
        ("partly there", "not everything that it needs", ExitCode.HARNESS_FAILED),
        ("no network", "no network", ExitCode.HARNESS_FAILED),
        ("bad checksum", "does not match its checksum", ExitCode.HARNESS_FAILED),
        ("no space", "no space left", ExitCode.HARNESS_FAILED),
        ("offline", "work offline", ExitCode.HARNESS_FAILED),
        ("something else", "The goal is on fire", ExitCode.HARNESS_FAILED),
        ("in colour", "The goal is on fire", ExitCode.HARNESS_FAILED),
    ],
)
def test_each_way_in_which_maven_fails_has_its_own_sentence(
    home: Path, says: str, sentence: str, code: ExitCode
) -> None:
    (home / "says").write_text(SAYS[says] + "\n")
    with pytest.raises((HarnessError, UsageError), match=sentence) as failed:
        fetch("9.9.9")
    assert failed.value.exit_code == code
    assert cached_releases() == []


def test_the_list_calls_those_releases_measured_of_which_there_are_figures() -> None:
    rows = json.loads((ROOT / "docs" / "measured.json").read_text())
    assert {known.version for known in KNOWN if known.measured} == {row["target"].partition(":")[0] for row in rows}


@pytest.mark.parametrize(("command", "sentence"), [("mvn", "no Maven"), ("java", "no Java")])
def test_without_maven_or_java_the_message_says_what_to_install(
    home: Path, monkeypatch: pytest.MonkeyPatch, command: str, sentence: str
) -> None:
    (home / "bin" / command).unlink()
    monkeypatch.setenv("PATH", str(home / "bin"))
    with pytest.raises(HarnessError, match=sentence) as failed:
        fetch("4.3.1")
    assert failed.value.next is not None
    assert failed.value.next.startswith("apt-get install")


def test_a_cache_that_cannot_be_written_is_named(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (home / "file").touch()
    monkeypatch.setenv("EBBTIDE_CACHE", str(home / "file"))
    with pytest.raises(HarnessError, match="cache cannot be written"):
        fetch("4.3.1")


def test_a_release_that_was_not_fetched_is_refused_with_the_command_that_fetches_it(home: Path) -> None:
    with pytest.raises(HarnessError, match="has not been fetched") as refused:
        jars_of("4.2.0")
    assert refused.value.next == "ebbtide kafka fetch 4.2.0"


@pytest.mark.parametrize("text", ["", "4", "4.3", "v4.3.1", "4.3.1-rc0", "../4.3.1", "٤.3.1", "4.3.1\n"])
def test_what_is_no_version_is_refused_before_anything_starts(home: Path, text: str) -> None:
    with pytest.raises(UsageError, match="not a Kafka release"):
        ensure(["4.3.1", text])
    assert _calls(home) == []


def test_a_release_without_kraft_for_production_is_refused() -> None:
    with pytest.raises(UsageError, match="KRaft"):
        parse_version("3.2.3")
    assert str(parse_version("3.3.0")) == "3.3.0"


@pytest.mark.parametrize(
    ("asked", "known"),
    [("9.9.9", "4.4.0"), ("4.5.0", "4.4.0"), ("4.4.7", "4.4.0"), ("3.9.7", "3.9.2"), ("4.1.7", "4.1.2")],
)
def test_the_nearest_known_release_is_suggested(asked: str, known: str) -> None:
    assert nearest_release(asked) == known


def test_a_known_release_with_another_jar_is_not_kept(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    right = dict(fetch("4.3.1").digests)
    wrong = right | {"kafka_2.13-4.3.1.jar": "0" * 64}
    monkeypatch.setattr(digests, "known_digests", lambda: {"kafka-4.3.1": wrong})
    with pytest.raises(HarnessError, match=r"damaged[\s\S]*kafka_2.13-4.3.1.jar has the SHA-256"):
        jars_of("4.3.1")
    shutil.rmtree(home / "cache")
    with pytest.raises(HarnessError, match=r"another kafka-4.3.1[\s\S]*kafka_2.13-4.3.1.jar has the SHA-256"):
        ensure(["4.3.1"])
    assert cached_releases() == []
    assert not list((home / "cache").rglob("*.jar"))
    monkeypatch.setattr(digests, "known_digests", lambda: {"kafka-4.3.1": right})
    assert ensure(["4.3.1"])[0].problem is None


def test_a_record_has_the_digests_of_a_release_that_the_project_does_not_know(
    home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    found = fetch("4.9.1").digests
    assert list(found) == ["kafka_2.13-4.9.1.jar", "slf4j-api-1.7.36.jar", "slf4j-simple-1.7.36.jar"]
    assert digests_to_record("4.9.1") == found
    monkeypatch.setattr("cluster.jars.releases.known_digests", lambda: {"kafka-4.9.1": found})
    assert digests_to_record("4.9.1") == {}
