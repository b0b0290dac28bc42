"""Makes a real node write every kind of record and batch that the decoders must read.

Topics, configs and a deletion for the metadata log; batches of every codec, compressed by the client's
libraries and by the broker's, idempotent, transactional, with headers, nulls and empty values.
"""

from __future__ import annotations

from kafka import KafkaProducer
from kafka.admin import ConfigResource, ConfigResourceType, KafkaAdminClient

CODECS = ("gzip", "snappy", "lz4", "zstd")

PROPERTIES = {
    # A snapshot after (nearly) every change, so that there is one to read.
    "metadata.log.max.record.bytes.between.snapshots": "1",
    "num.partitions": "1",
}


def topics() -> dict[str, dict[str, str]]:
    """The topics made and their configs: `client-C` is compressed by the client, `broker-C` by the broker."""
    by_client = {f"client-{codec}": {"compression.type": "producer"} for codec in ("none", *CODECS)}
    by_broker = {f"broker-{codec}": {"compression.type": codec} for codec in CODECS}
    appended = {"append-time": {"message.timestamp.type": "LogAppendTime"}}
    return {**by_client, **by_broker, **appended, "transactions": {}, "many-segments": {"segment.ms": "1"}}


def write_every_kind(address: str) -> None:
    """Do it, against the node at `address`."""
    admin = KafkaAdminClient(bootstrap_servers=address)
    setups = {name: _setup(configs) for name, configs in topics().items()}
    admin.create_topics({**setups, "short-lived": _setup({"min.insync.replicas": "1"})}, wait_for_metadata=True)
    for value in ("60000", "70000"):
        admin.alter_configs([ConfigResource(ConfigResourceType.TOPIC, "client-none", {"retention.ms": value})])
    admin.alter_configs([ConfigResource(ConfigResourceType.BROKER, "1", {"max.connections": "1000"})])
    admin.reset_configs([ConfigResource(ConfigResourceType.TOPIC, "client-none", {"retention.ms": None})])
    admin.delete_topics(["short-lived"])
    admin.close()
    for name in topics():
        codec = name.removeprefix("client-") if name.startswith("client-") else None
        _produce(address, name, None if codec in (None, "none") else codec)
    _transactions(address)


def _setup(configs: dict[str, str]) -> dict[str, object]:
    return {"num_partitions": 1, "replication_factor": 1, "configs": configs}


def _produce(address: str, topic: str, codec: str | None) -> None:
    for idempotent in (False, True):
        producer = KafkaProducer(
            bootstrap_servers=address, compression_type=codec, enable_idempotence=idempotent, linger_ms=20
        )
        for index in range(150):
            headers = [("first", b"1"), ("empty", b""), ("first", b"\x00\xff")][: index % 4]
            producer.send(topic, key=_key(index), value=_value(index), headers=headers)
        producer.flush()
        producer.close()


def _key(index: int) -> bytes | None:
    return b"key-%d" % index if index % 7 == 0 or index % 3 == 0 else None


def _value(index: int) -> bytes | None:
    if index % 7 == 0:
        return None
    return b"" if index % 7 == 1 else b"value %d " % index * (index % 40 + 1)


def _transactions(address: str) -> None:
    producer = KafkaProducer(bootstrap_servers=address, transactional_id="every-kind")
    producer.init_transactions()
    for commit in (True, False, True):
        producer.begin_transaction()
        for index in range(10):
            producer.send("transactions", b"%d of a transaction that ends with %d" % (index, commit))
        producer.flush()
        if commit:
            producer.commit_transaction()
        else:
            producer.abort_transaction()
    producer.close()
