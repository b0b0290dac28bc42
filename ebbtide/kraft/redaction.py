"""Takes out of the metadata log of somebody else's cluster what a run record must not hold.

The log has the cluster's SCRAM credentials, ACLs, delegation tokens, quotas, the names of its topics and the values of
its dynamic configs. A record is made to be given away, so only these records stay as they are:

- registrations and fencings of brokers, feature levels, and control records,
- the topics of the run, with their partitions and configs,
- the configs that decide elections (`DECIDING_CONFIGS`), of any broker and of the cluster.

Every other record becomes a NoOpRecord at the same offset and time. Offsets, epochs and times of the log are therefore
those of the cluster. A record of a type that Ebbtide does not know loses its content, and keeps its type: the timeline
then says that something is unknown.
"""

from __future__ import annotations

from collections.abc import Collection

from crc32c import crc32c

from ebbtide.kraft.records import MetadataRecord, decode_batch
from ebbtide.logs.batches import CRC_START, HEADER, HEADER_SIZE, LENGTH_END, Batch, LogRecord
from ebbtide.logs.codecs import UndecodableError

DECIDING_CONFIGS = frozenset({"min.insync.replicas", "unclean.leader.election.enable"})

_ALWAYS_KEPT = frozenset(
    {
        "RegisterBrokerRecord",
        "UnregisterBrokerRecord",
        "BrokerRegistrationChangeRecord",
        "FenceBrokerRecord",
        "UnfenceBrokerRecord",
        "FeatureLevelRecord",
        "NoOpRecord",
        "BeginTransactionRecord",
        "EndTransactionRecord",
        "AbortTransactionRecord",
    }
)
_TOPIC_RESOURCE, _BROKER_RESOURCE = 2, 4
_NO_OP = b"\x01\x14\x00\x00"
"""Frame version 1, API key 20, version 0, no tagged fields."""
_UNDECODABLE = b"\x01\xff\x7f\x00"
"""A record of an API key that no release has: 16383."""
_CODEC_MASK = ~0x07


class Redaction:
    """Rewrites batches; `topics` are the names of the run's own topics.

    It sees the batches in the order of the log: a topic is made before its partitions.
    """

    def __init__(self, topics: Collection[str]) -> None:
        self._topics = frozenset(topics)
        self._ids: set[object] = set()

    def apply(self, batch: Batch) -> bytes:
        """Return the batch as a record may hold it; the same bytes if nothing has to go."""
        if batch.control:
            return bytes(batch.data)
        try:
            whole = list(batch.records())
            decoded = decode_batch(batch)
        except UndecodableError:
            only = LogRecord(batch.base_offset, batch.base_timestamp_ms, -1, None, _UNDECODABLE)
            return _encode(batch, [only])
        pairs = zip(whole, decoded, strict=True)
        kept = [record if self._is_kept(meant) else _without_content(record, meant) for record, meant in pairs]
        return bytes(batch.data) if kept == whole else _encode(batch, kept)

    def _is_kept(self, record: MetadataRecord) -> bool:
        if record.undecoded is not None:
            return False
        if record.name in _ALWAYS_KEPT:
            return True
        fields = record.fields
        match record.name:
            case "TopicRecord":
                if fields["name"] in self._topics:
                    self._ids.add(fields["topicId"])
                return fields["name"] in self._topics
            case "PartitionRecord" | "PartitionChangeRecord" | "RemoveTopicRecord":
                return fields["topicId"] in self._ids
            case "ClearElrRecord":
                return fields["topicName"] in ("", *self._topics)
            case "ConfigRecord" if fields["resourceType"] == _TOPIC_RESOURCE:
                return fields["resourceName"] in self._topics
            case "ConfigRecord" if fields["resourceType"] == _BROKER_RESOURCE:
                return fields["name"] in DECIDING_CONFIGS
        return False


def _without_content(record: LogRecord, meant: MetadataRecord) -> LogRecord:
    """Return a record that says nothing instead of this one; a record of unknown type stays."""
    value = _NO_OP if meant.undecoded is None else _head_of(record.value or b"")
    return LogRecord(record.offset, record.timestamp_ms, record.sequence, None, value)


def _head_of(value: bytes) -> bytes:
    """Return frame version, API key and version of a record: three unsigned varints."""
    end = 0
    for _ in range(3):
        while end < len(value) and value[end] & 0x80:
            end += 1
        end += 1
    return value[:end] if end <= len(value) else _UNDECODABLE


def _encode(batch: Batch, records: list[LogRecord]) -> bytes:
    """Return a batch with these records, uncompressed, and otherwise as `batch`."""
    payload = b"".join(_encode_record(batch, record) for record in records)
    encoded = bytearray(HEADER_SIZE + len(payload))
    attributes = batch.attributes & _CODEC_MASK
    HEADER.pack_into(
        encoded,
        0,
        batch.base_offset,
        len(encoded) - LENGTH_END,
        batch.leader_epoch,
        2,
        0,
        attributes,
        batch.last_offset - batch.base_offset,
        batch.base_timestamp_ms,
        batch.max_timestamp_ms,
        batch.producer_id,
        batch.producer_epoch,
        batch.base_sequence,
        len(records),
    )
    encoded[HEADER_SIZE:] = payload
    checksum = crc32c(bytes(encoded[CRC_START:]))
    encoded[CRC_START - 4 : CRC_START] = checksum.to_bytes(4, "big")
    return bytes(encoded)


def _encode_record(batch: Batch, record: LogRecord) -> bytes:
    # With log append time every record has the batch's time, and its own delta does not count.
    delta = 0 if batch.log_append_time else record.timestamp_ms - batch.base_timestamp_ms
    body = b"\0" + _varint(delta) + _varint(record.offset - batch.base_offset)
    body += _with_length(record.key) + _with_length(record.value) + _varint(0)
    return _varint(len(body)) + body


def _with_length(data: bytes | None) -> bytes:
    return _varint(-1) if data is None else _varint(len(data)) + data


def _varint(number: int) -> bytes:
    """Return a zigzag varint."""
    left = (number << 1) ^ (number >> 63)
    out = bytearray()
    while left > 0x7F:
        out.append((left & 0x7F) | 0x80)
        left >>= 7
    out.append(left)
    return bytes(out)
