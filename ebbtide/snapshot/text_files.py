"""Makes a snapshot of what people have at hand instead of a cluster: Kafka's listings, and files that make clusters.

Several files are of one cluster. What they do not say is assumed in the weakest way, and a note says so.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path

from ebbtide import properties_file
from ebbtide.errors import UsageError
from ebbtide.scenario.foreign_files import (
    COMPOSE_FILE,
    CONFIGS_LIST,
    FEATURES_LIST,
    SERVER_PROPERTIES,
    STRIMZI,
    TOPICS_LIST,
    what_is,
)
from ebbtide.shown_text import plural
from ebbtide.snapshot.compose_files import read_compose
from ebbtide.snapshot.described import DescribedNode, FileFacts, merged, raise_problems, value_problems
from ebbtide.snapshot.listings import read_configs, read_features, read_topics
from ebbtide.snapshot.model import OF_FILES, SNAPSHOT_VERSION, ClusterSnapshot, check_snapshot
from ebbtide.snapshot.planned import brokers_of, plan_topics, release_in, voters_of, with_configs
from ebbtide.snapshot.strimzi_files import read_strimzi
from ebbtide.untrusted.files import SMALL_BYTES_MAX, UnreadableFile, read_file

BYTES_MAX = 64 << 20
READABLE = (TOPICS_LIST, FEATURES_LIST, CONFIGS_LIST, SERVER_PROPERTIES, COMPOSE_FILE, STRIMZI)


def is_of_text(path: Path) -> bool:
    """Whether a file is one of those that make a snapshot here; who reads it says what is wrong with any other."""
    try:
        return what_is(read_file(path, bytes_max=BYTES_MAX)) in READABLE
    except UnreadableFile:
        return False


def describe_files(paths: Sequence[Path]) -> FileFacts:
    """Return what the files say together. Raises `UsageError` for other files, and for a line without sense."""
    facts: list[FileFacts] = []
    strimzi: dict[Path, bytes] = {}
    for path in paths:
        content = read_file(path, what="the file", bytes_max=BYTES_MAX)
        text = content.decode("utf-8", "replace")
        kind = what_is(content)
        if kind == TOPICS_LIST:
            facts.append(read_topics(path, text))
        elif kind == FEATURES_LIST:
            facts.append(read_features(path, text))
        elif kind == CONFIGS_LIST:
            facts.append(read_configs(path, text))
        elif kind == SERVER_PROPERTIES:
            facts.append(_server_properties(path, content.decode("latin-1")))
        elif kind in (COMPOSE_FILE, STRIMZI) and len(content) <= SMALL_BYTES_MAX:
            if kind == STRIMZI:
                strimzi[path] = content
            else:
                facts.append(read_compose(path, content))
        else:
            raise UsageError(
                "this file does not describe a cluster" if kind not in READABLE else "the file is too large",
                where=str(path),
                got=kind or "no file that Ebbtide knows",
                allowed=f"one file of --save, or together {', '.join(READABLE)}",
            )
    if strimzi:
        facts.append(read_strimzi(strimzi))
    return merged(facts)


def _server_properties(path: Path, text: str) -> FileFacts:
    properties = {name: value.strip() for name, value in properties_file.parse(text).items()}
    lines = {
        name: text[: found.start()].count("\n") + 1
        for name in properties
        if (found := re.search(rf"^[ \t]*{re.escape(name)}\s*[=: ]", text, re.MULTILINE)) is not None
    }
    raise_problems(path, list(value_problems(properties, "", lines)))
    return FileFacts(nodes=(DescribedNode(name=path.name, properties=properties),))


def snapshot_of_files(paths: Sequence[Path]) -> ClusterSnapshot:
    """Return the cluster that the files describe. Raises `UsageError`."""
    return snapshot_of(describe_files(paths), paths)


def snapshot_of(facts: FileFacts, paths: Sequence[Path]) -> ClusterSnapshot:
    """Return the cluster that these facts of the files are of. Raises `UsageError`."""
    notes = list(facts.notes)
    if facts.topics:
        topics = tuple(with_configs(facts))
        hosting = {one for topic in topics for partition in topic.partitions for one in partition.replicas}
        alive = {one for topic in topics for part in topic.partitions for one in (*part.isr, part.leader)}
        ids = sorted(hosting & alive)
    else:
        ids, topics, said = plan_topics(facts)
        notes += said
    brokers, said = brokers_of(ids, facts)
    notes += said
    release = release_in(facts)
    snapshot = ClusterSnapshot(
        snapshot_version=SNAPSHOT_VERSION,
        taken_at=OF_FILES,
        cluster_id=paths[0].name + (f" and {plural(len(paths) - 1, 'more file')}" if len(paths) > 1 else ""),
        brokers=brokers,
        features=facts.features,
        controllers=voters_of(facts),
        metadata_versions=release.levels,
        topics=topics,
        assumed=(*notes, *release.notes),
        kafka=release.kafka,
        unsaid=release.unsaid,
        is_planned=not facts.topics,
    )
    check_snapshot(snapshot, ", ".join(map(str, paths)))
    return snapshot
