"""The decoders against Kafka itself: its own dump tool, its own snapshots, and a log while it is written."""

from __future__ import annotations

import re
import threading
import time
import zipfile
from pathlib import Path

import msgspec
import pytest
from dump_log import (
    Dump,
    assert_metadata_agrees,
    assert_segments_agree,
    definitions,
    dump_segments,
    encoding,
    parse_definition,
)
from every_kind import CODECS, PROPERTIES, topics, write_every_kind
from single_node import SingleNode

from cluster.jars.releases import ensure, jars_of
from cluster.runtime.jvm import installation_of
from ebbtide.kraft.follower import FollowedItem, MetadataFollower, read_snapshot, snapshot_files
from ebbtide.kraft.image import MetadataImage
from ebbtide.kraft.records import MetadataRecord
from ebbtide.logs.codecs import Codec
from ebbtide.logs.scan import scan_file
from ebbtide.logs.segments import METADATA_FOLDER, leo_of, segment_files
from ebbtide.record.rows import BrokerEvent, PartitionState
from ebbtide.waiting import pause

pytestmark = [pytest.mark.live, pytest.mark.beside]

VERSIONS = ("3.4.1", "3.9.1", "4.3.1", "4.4.0")
# kafka-tools 4.4.0 cannot be resolved everywhere; the tool of 4.3.1 knows every record that this node writes.
DUMPED_BY = {"4.4.0": "4.3.1"}
POLLS_WITH_NEWS_MIN = 10

# Changed or dropped without a new version, because no controller of those releases ever wrote them.
NEVER_WRITTEN = ("AccessControlRecord", "UserScramCredentialRecord", "DelegationTokenRecord")


class WrittenNode(msgspec.Struct, frozen=True):
    """A node's data after everything was written, and what a follower saw and mirrored meanwhile.

    `dump_tool`: the release whose tool dumps it.
    """

    dump_tool: str
    data: Path
    followed: list[FollowedItem]
    polls_with_news: int
    mirror: Path


@pytest.fixture(
    scope="module",
    params=[pytest.param(version, marks=() if version == "4.3.1" else pytest.mark.slow) for version in VERSIONS],
)
def written_node(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> WrittenNode:
    """One node of a release, written to while its metadata log is followed, then killed."""
    version = request.param
    dump_tool = DUMPED_BY.get(version, version)
    ensure([version, dump_tool])
    folder = tmp_path_factory.mktemp(version)
    node = SingleNode(folder, installation_of(version), PROPERTIES)
    try:
        follower = MetadataFollower(node.data_dir / METADATA_FOLDER, mirror=folder / "mirror")
        followed, news = follower.poll(), 0
        writer = threading.Thread(target=write_every_kind, args=(node.address,))
        writer.start()
        # The controller writes NoOpRecords while nobody else writes anything.
        enough_by = time.monotonic() + 30
        while writer.is_alive() or (news <= POLLS_WITH_NEWS_MIN and time.monotonic() < enough_by):
            new = follower.poll()
            followed += new
            news += bool(new)
            pause(0.002)
        writer.join()
    finally:
        node.kill()
    followed += follower.poll()
    return WrittenNode(dump_tool, node.data_dir, followed, news, folder / "mirror")


@pytest.fixture(scope="module")
def topic_dump(written_node: WrittenNode) -> Dump:
    """What the tool prints of all topics."""
    return dump_segments(written_node.dump_tool, *(written_node.data / f"{topic}-0" for topic in topics()))


def test_every_metadata_record_is_what_the_dump_tool_prints(written_node: WrittenNode) -> None:
    records = assert_metadata_agrees(written_node.dump_tool, written_node.data / METADATA_FOLDER)
    assert records > 150


@pytest.mark.parametrize("topic", topics())
def test_every_record_of_a_topic_is_what_the_dump_tool_prints(
    written_node: WrittenNode, topic_dump: Dump, topic: str
) -> None:
    folder = written_node.data / f"{topic}-0"
    assert assert_segments_agree(folder, topic_dump) == leo_of(folder)
    assert leo_of(folder) >= 300


@pytest.mark.parametrize("codec", CODECS)
def test_the_topics_hold_what_the_codecs_made(written_node: WrittenNode, codec: str) -> None:
    for topic in (f"client-{codec}-0", f"broker-{codec}-0"):
        batches = [item for path in segment_files(written_node.data / topic).values() for item in scan_file(path)]
        assert {batch.codec for batch in batches} == {Codec[codec.upper()]}


def test_a_topic_has_several_segments(written_node: WrittenNode) -> None:
    assert len(segment_files(written_node.data / "many-segments-0")) > 1


def test_a_follower_of_the_live_log_missed_nothing_and_its_mirror_is_the_log(written_node: WrittenNode) -> None:
    folder = written_node.data / METADATA_FOLDER
    assert written_node.followed == MetadataFollower(folder).poll()
    assert written_node.polls_with_news > POLLS_WITH_NEWS_MIN
    for path in segment_files(folder).values():
        assert (written_node.mirror / path.name).read_bytes() == path.read_bytes()


def test_replaying_the_log_gives_the_state_that_kafka_wrote_into_each_snapshot(written_node: WrittenNode) -> None:
    records = [item for item in written_node.followed if isinstance(item, MetadataRecord)]
    snapshots = [each for each in snapshot_files(written_node.data / METADATA_FOLDER) if each.end_offset > 0]
    assert len(snapshots) > 5
    for snapshot in snapshots:
        by_log, by_snapshot = MetadataImage(), MetadataImage()
        by_log.apply(record for record in records if record.offset < snapshot.end_offset)
        rows = by_snapshot.apply(read_snapshot(snapshot))
        assert {key: _content(row) for key, row in by_log.partitions.items()} == {
            key: _content(row) for key, row in by_snapshot.partitions.items()
        }
        assert by_log.configs == by_snapshot.configs
        assert {name: level for name, level in by_log.features.items() if level} == by_snapshot.features
        assert {broker: _registration(row) for broker, row in by_log.brokers.items()} == {
            row.broker: _registration(row) for row in rows if isinstance(row, BrokerEvent)
        }


@pytest.mark.parametrize("version", VERSIONS)
def test_the_bundled_definitions_read_every_version_that_a_release_writes(version: str) -> None:
    ensure([version])
    (jar,) = (path for path in jars_of(version) if path.name.startswith("kafka-metadata-"))
    with zipfile.ZipFile(jar) as archive:
        names = [name for name in archive.namelist() if re.fullmatch(r"common/metadata/\w+\.json", name)]
        theirs = [parse_definition(archive.read(name).decode()) for name in names]
    ours = {each["apiKey"]: each for each in definitions().values() if "apiKey" in each}
    compared = 0
    for definition in theirs:
        if definition["name"] in NEVER_WRITTEN:
            continue
        for record_version in range(int(definition["validVersions"].rpartition("-")[2]) + 1):
            assert encoding(ours[definition["apiKey"]], record_version) == encoding(definition, record_version)
            compared += 1
    assert compared >= 20


def _content(row: PartitionState) -> PartitionState:
    return msgspec.structs.replace(row, metadata_offset=0, metadata_epoch=0, at_ns=0)


def _registration(row: BrokerEvent) -> tuple[int, str | None, bool]:
    # A registration without a later event is fenced, which a snapshot does not tell from a fenced broker.
    return row.broker_epoch, row.incarnation, row.event in ("registered", "fenced")
