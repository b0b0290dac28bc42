"""What a word of --kafka names: a folder, a .tgz or a build in Maven becomes a build of the cache; a release stays."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import msgspec
import pytest
from own_builds import BROKER, SAYS, make_archive, make_build, make_jar, said

from cluster.builds import naming
from cluster.builds.naming import named_kafka
from cluster.jars import maven
from cluster.jars.releases import add_log_binding, cached_releases, ensure, jars_of
from cluster.runtime import java_programs
from cluster.runtime.tool_command import ToolCommand
from ebbtide.errors import HarnessError, Problems, UsageError
from ebbtide.pytest_plugin.chaos_scenario import chaos_scenario
from ebbtide.releases.builds import build_of, is_build, number_of
from ebbtide.releases.feature_levels import levels_of
from ebbtide.releases.known_releases import KNOWN, parse_version, version_of
from ebbtide.scenario import catalogue
from ebbtide.scenario.parse import parse
from ebbtide.scenario.safety import unknown_releases
from ebbtide.scenario.write import brief_text_of, recorded_text_of
from harness.cli.option_values import with_upgrade
from harness.random.drawing import draw
from harness.replay.recorded_run import scenario_to_repeat


def named(word: str) -> str:
    return named_kafka(word, lambda line: None)


def refused(word: str) -> str:
    with pytest.raises(UsageError) as caught:
        named(word)
    return caught.value.render()


def test_a_folder_is_named_by_its_version_and_its_jars() -> None:
    first = named(str(make_build(Path("own"))))
    assert first.startswith("4.5.0-SNAPSHOT@")
    assert (is_build(first), number_of(first), str(version_of(first))) == (True, "4.5.0", "4.5.0")
    assert build_of(first).commit == "77a89fcf8d7fa018"
    assert named("own") == first
    assert [one.version for one in ensure([first])] == [one.version for one in cached_releases()] == [first]
    make_build(Path("own"), broker="another class")
    assert named("own") != first, "the same commit with another class is another build"


def test_a_distribution_and_its_archive_are_the_same_build(tmp_path: Path) -> None:
    libs = make_build(tmp_path / "dist" / "libs")
    first = named("dist")
    packed = make_archive(tmp_path / "kafka_2.13-4.5.0-SNAPSHOT.tgz", libs)
    make_jar(libs / "kafka-clients-4.5.0-SNAPSHOT-test.jar", {"T.class": "t"})
    make_jar(libs / "log4j-slf4j-impl-2.25.4.jar", {"L.class": "l"})
    assert named(str(packed)) == named("./dist/libs") == first
    assert [path.name for path in jars_of(first)] == [
        "kafka-clients-4.5.0-SNAPSHOT.jar",
        "kafka-raft-4.5.0-SNAPSHOT.jar",
        "kafka_2.13-4.5.0-SNAPSHOT.jar",
        "slf4j-api-1.7.36.jar",
        "slf4j-simple-1.7.36.jar",
    ]


def test_several_stand_beside_releases_and_keep_their_feature_levels() -> None:
    make_build(Path("a"))
    make_build(Path("b"), "4.3.1")
    words = named("4.3.1,./a,b:metadata.version=30+group.version=1,4.2").split(",")
    assert words[0] == "4.3.1"
    assert is_build(words[1])
    assert words[2].startswith("4.3.1@")
    assert words[2].endswith(":metadata.version=30+group.version=1")
    assert words[3] == "4.2"
    assert named(",".join(words)) == ",".join(words)


def test_a_build_can_do_what_its_classes_say() -> None:
    levels = levels_of(named(str(make_build(Path("own")))))
    assert levels is not None
    assert levels["metadata.version"] == range(7, 35)
    assert levels["kraft.version"] == range(1), "a static quorum is formatted with level 0"
    assert levels["transaction.version"] == range(3)


def test_facts_that_were_lost_are_asked_for_again(cache: Path) -> None:
    name = named(str(make_build(Path("own"))))
    (cache / "kafka" / name / "build.json").unlink()
    # A record of it can be read all the same, by the levels of its version.
    assert levels_of(name) == levels_of("4.5.0")
    assert named("own") == name
    assert levels_of(name) is not None


def test_a_build_before_4_0_has_the_levels_of_the_known_release() -> None:
    assert levels_of(named(str(make_build(Path("own"), "3.9.3-SNAPSHOT")))) == levels_of("3.9.2")


def test_a_class_that_moved_is_one_clear_error(tmp_path: Path) -> None:
    java = tmp_path / "java"
    java.write_text(
        "#!/bin/sh\necho 'at x\nCaused by: java.lang.ClassNotFoundException: a.Feature\n... 5 more' >&2; exit 1"
    )
    java.chmod(0o755)
    tool = ToolCommand(kafka="4.5.0-SNAPSHOT, commit 1", executable=str(java), options=(), class_path=())
    with pytest.raises(HarnessError) as caught:
        java_programs._output_of(tool, Path("Asks.java"), "feature levels it has")
    assert caught.value.render().splitlines() == [
        "Kafka's jars do not say which feature levels it has",
        "  where:   Kafka 4.5.0-SNAPSHOT, commit 1",
        "  got:     java.lang.ClassNotFoundException: a.Feature",
    ]


def _no_broker() -> str:
    make_jar(Path("own/kafka-clients-4.5.0.jar"), {"C.class": "c", SAYS: said("4.5.0")})
    return "no jars of a Kafka broker"


def _empty() -> str:
    Path("own").mkdir()
    return "no jar"


def _no_class() -> str:
    make_jar(Path("own/kafka_2.13-4.5.0.jar"), {SAYS: said("4.5.0")})
    return "these jars have no Java class"


def _silent() -> str:
    make_jar(Path("own/kafka_2.13-4.5.0.jar"), {BROKER: "b"})
    return "do not say which version they are"


def _other_release() -> str:
    make_build(Path("own"))
    make_jar(Path("own/kafka-server-common-4.4.0.jar"), {"S.class": "s", SAYS: said("4.4.0")})
    return "got:     kafka-server-common-4.4.0.jar: 4.4.0, commit 77a89fcf8d7fa018; 2 other jars: 4.5.0-SNAPSHOT"


def _other_file() -> str:
    make_build(Path("own"))
    Path("own/kafka-raft-4.5.0-SNAPSHOT.jar").rename("own/kafka-raft-4.4.0.jar")
    return "got:     kafka-raft-4.4.0.jar: 4.4.0; 2 other jars: 4.5.0-SNAPSHOT"


def _two_versions() -> str:
    make_build(Path("own"))
    make_jar(Path("own/slf4j-api-2.0.16.jar"), {"org/slf4j/Logger.class": "newer"})
    return "got:     slf4j-api-1.7.36.jar and slf4j-api-2.0.16.jar"


def _half_a_jar() -> str:
    jar = make_build(Path("own")) / "kafka-raft-4.5.0-SNAPSHOT.jar"
    jar.write_bytes(jar.read_bytes()[:60])
    return "a jar is damaged"


def _too_old() -> str:
    make_build(Path("own"), "2.8.1")
    return "Kafka before 3.3 has no KRaft mode"


@pytest.mark.parametrize(
    "make", [_no_broker, _empty, _no_class, _silent, _other_release, _other_file, _two_versions, _half_a_jar, _too_old]
)
def test_jars_that_are_not_those_of_one_kafka_are_one_clear_error(make: Callable[[], str]) -> None:
    expected = make()
    text = refused("./own")
    assert expected in text
    assert len(text.splitlines()) <= 5
    assert cached_releases() == []


def test_two_projects_may_call_their_jars_alike() -> None:
    make_jar(make_build(Path("own")) / "metrics-core-2.2.0.jar", {"com/yammer/Meter.class": "m"})
    make_jar(Path("own/metrics-core-4.1.12.1.jar"), {"io/dropwizard/Meter.class": "m", "module-info.class": "i"})
    assert named("./own").startswith("4.5.0-SNAPSHOT@")


@pytest.mark.parametrize("word", [".", "core/build/libs", "core/build/distributions"])
def test_a_folder_of_a_checkout_is_one_clear_error_that_names_the_archive_in_it(
    word: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    checkout = tmp_path / "checkout"
    jars = make_build(checkout / "core/build/libs")
    archive = checkout / "core/build/distributions" / "kafka_2.13-4.5.0-SNAPSHOT.tgz"
    archive.parent.mkdir()
    make_archive(archive, jars)
    make_archive(archive.with_name("kafka_2.13-4.5.0-SNAPSHOT-site-docs.tgz"), checkout / "core", "site-docs")
    for jar in jars.glob("kafka-*.jar"):
        jar.unlink()
    make_jar(jars / "kafka_2.13-4.5.0-SNAPSHOT.jar", {BROKER: "b"})
    monkeypatch.chdir(checkout)
    (checkout / "gradlew").touch()
    text = refused(word)
    (option,) = (line for line in text.splitlines() if line.startswith("  next:    --kafka "))
    assert len(text.splitlines()) <= 5
    assert named(option.split()[2]).startswith("4.5.0-SNAPSHOT@")
    archive.unlink()
    assert "next:    ./gradlew releaseTarGz" in refused(word)


def test_a_path_behind_a_comma_may_begin_at_home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    make_build(tmp_path / "own")
    assert named("4.3.1,~/own") == f"4.3.1,{named('./own')}"


def test_an_archive_is_unpacked_as_that_of_somebody_else(monkeypatch: pytest.MonkeyPatch) -> None:
    make_archive(Path("own.tgz"), make_build(Path("own")))
    monkeypatch.setattr(naming, "_BOUNDS", msgspec.structs.replace(naming._BOUNDS, bytes_max=100))
    assert "too large" in refused("own.tgz")


def test_half_an_archive_is_one_clear_error(tmp_path: Path) -> None:
    packed = make_archive(tmp_path / "own.tgz", make_build(tmp_path / "own"))
    packed.write_bytes(packed.read_bytes()[:-200])
    assert "the archive is damaged, or not whole" in refused("own.tgz")
    Path("no.tgz").write_text("no archive")
    assert "the archive is damaged, or not whole" in refused("no.tgz")


@pytest.mark.parametrize("word", ["./nowhere", "nowhere.tgz", "file.txt/"])
def test_a_path_without_jars_is_wrong_usage(word: str) -> None:
    assert "allowed: a release such as 4.3.1, a folder of Kafka's jars" in refused(word)


@pytest.mark.parametrize(
    ("word", "version", "repository"),
    [
        ("4.5.0-SNAPSHOT", "4.5.0-SNAPSHOT", None),
        ("4.5.0@file:///srv/repo", "4.5.0", "file:///srv/repo"),
        ("4.5.0-rc1@https://repo.example/staging", "4.5.0-rc1", "https://repo.example/staging"),
    ],
)
def test_a_build_in_maven_is_asked_for_where_the_word_says(
    word: str, version: str, repository: str | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked = []

    def copy(version: str, jars: Path, repository: str | None = None) -> None:
        asked.append((version, repository))
        make_build(jars, version)

    monkeypatch.setattr(naming, "copy_jars", copy)
    assert named(word).startswith(f"{version}@")
    assert asked == [(version, repository)]


def test_a_repository_is_added_to_those_of_mavens_settings() -> None:
    kafka = maven.Artifact(group="org.apache.kafka", name="kafka_2.13", version="4.5.0")
    assert "<url>file:///a&amp;b</url>" in maven._pom([kafka], "file:///a&b")
    assert "<url>" not in maven._pom([kafka], None)


def test_a_build_that_is_not_in_maven_is_wrong_usage(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def copy(*_: object, **__: object) -> None:
        raise maven.ArtifactMissing("org.apache.kafka:kafka_2.13:4.5.0-SNAPSHOT", tmp_path / "log")

    monkeypatch.setattr(naming, "copy_jars", copy)
    assert "publishToMavenLocal" in refused("4.5.0-SNAPSHOT")


def test_the_log_binding_comes_from_a_release_of_the_cache(cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    name = named(str(make_build(Path("own"))))
    monkeypatch.setattr("cluster.jars.releases.copy_runtime_jars", lambda *_: pytest.fail("Maven was asked"))
    jars = make_build(Path("other"))
    add_log_binding(jars)
    assert (jars / "slf4j-simple-1.7.36.jar").read_bytes() == jars_of(name)[-1].read_bytes()


def test_a_build_that_left_the_cache_is_named_again() -> None:
    gone = "4.5.0-SNAPSHOT@0123abcd"
    parse_version(gone)
    for use in (lambda: jars_of(gone), lambda: ensure([gone])):
        with pytest.raises(HarnessError, match=r"does not have the build 4\.5\.0-SNAPSHOT@0123abcd"):
            use()


def test_known_releases_stay_words(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(naming, "locked_cache", lambda *_: pytest.fail("the cache was locked"))
    words = ",".join(one.version for one in KNOWN)
    assert named(words) == words


def test_a_scenario_file_with_a_build_is_for_hosts_that_have_it() -> None:
    scenario = msgspec.structs.replace(catalogue.find("healthy"), kafka=("4.3.1", "4.3.1@0123abcd"))
    (warning,) = unknown_releases(scenario)
    assert "only hosts that have this build" in warning.what


@pytest.mark.parametrize("seed", range(6))
def test_a_drawn_scenario_of_a_build_is_a_file_that_runs(seed: int) -> None:
    name = named(str(make_build(Path("own"))))
    drawn = draw(seed, kafka=name)
    assert drawn.kafka == (name,)
    assert parse(brief_text_of(drawn), file="drawn.toml", to_run=True) == drawn
    assert parse(recorded_text_of(drawn), file="scenario.toml", to_run=True).kafka == ("4.5.0",)


def test_a_chaos_test_predicts_for_the_three_numbers() -> None:
    name = named(str(make_build(Path("own"))))
    scenario = chaos_scenario({}, name, None)
    assert (scenario.kafka, scenario.predictions[0].kafka) == ((name,), "==4.5.0")


def test_an_upgrade_may_lead_to_a_build() -> None:
    make_build(Path("own"))
    moved, releases = with_upgrade(catalogue.find("healthy"), "4.3.1:./own")
    assert moved.cluster.formed_on == "4.3.1"
    assert releases == [named("own")]


def test_a_record_of_a_build_may_have_levels_that_the_release_of_its_numbers_lacks(tmp_path: Path) -> None:
    name = named(str(make_build(Path("own"), "4.4.0-SNAPSHOT")))
    healthy = catalogue.find("healthy")
    newest = msgspec.structs.replace(healthy.cluster, features={"metadata.version": 34})
    path = tmp_path / "scenario.toml"
    path.write_text(recorded_text_of(msgspec.structs.replace(healthy, kafka=(name,), cluster=newest)))
    assert parse(path.read_text(), file="scenario.toml").kafka == ("4.4.0",), "whoever judges the record can read it"
    assert scenario_to_repeat(path, name).cluster == newest
    with pytest.raises(Problems, match="1 problem") as caught:
        scenario_to_repeat(path, "4.4.0")
    assert "Kafka 4.4.0 cannot be formatted with this level" in caught.value.render()


def test_a_record_of_an_upgrade_to_a_build_of_the_same_numbers_can_be_read() -> None:
    name = named(str(make_build(Path("own"), "4.3.1")))
    moved, _ = with_upgrade(catalogue.find("healthy"), f"4.3.1:{name}")
    recorded = recorded_text_of(msgspec.structs.replace(moved, kafka=(name,)))
    assert parse(recorded, file="scenario.toml").cluster.formed_on == "4.3.1"
