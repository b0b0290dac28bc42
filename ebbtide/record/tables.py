"""Schemas of the run record's Parquet tables, version 1.

Times are nanoseconds since the epoch, UTC; ids are Kafka's. A table may be missing or empty: what depends on it is
then unknown. Unknown columns are ignored; a missing nullable column reads as null. Tables are written with zstd, as
one file (`<name>.parquet`) or several (`<name>/*.parquet`).
"""

from __future__ import annotations

import pyarrow as pa


def schema_of_rows(text: str) -> pa.Schema:
    """Build a schema from `name type` in words; all columns are nullable."""
    words = text.split()
    columns = zip(words[::2], words[1::2], strict=True)
    return _schema("\n".join(f"{name} {kind}?" for name, kind in columns))


def _schema(text: str) -> pa.Schema:
    """Build a schema from `name type` lines; a type that ends in `?` is nullable."""
    kinds = {
        "string": pa.string(),
        "bool": pa.bool_(),
        "int8": pa.int8(),
        "int16": pa.int16(),
        "int32": pa.int32(),
        "int64": pa.int64(),
        "list<int32>": pa.list_(pa.int32()),
    }
    fields = []
    for line in text.strip().splitlines():
        name, kind = line.split()
        fields.append(pa.field(name, kinds[kind.rstrip("?")], nullable=kind.endswith("?")))
    return pa.schema(fields)


SENDS = _schema("""
topic string
partition int32
value int64
producer int32
sequence int64
acks int8
status string
offset int64?
error string?
txn int64?
txn_outcome string?
sent_ns int64
done_ns int64?
""")

POLLS = _schema("""
topic string
partition int32
offset int64
value int64?
consumer int32
session int32
prev_offset int64?
leader_epoch int32?
isolation string
polled_ns int64
""")

WATERMARKS = _schema("""
topic string
partition int32
broker int32
leader_epoch int32?
high_watermark int64
log_end_offset int64?
source string
asked_ns int64?
at_ns int64
""")

DESCRIBED = _schema("""
topic string
partition int32
broker int32
leader int32
leader_epoch int32
isr list<int32>
elr list<int32>?
last_known_elr list<int32>?
asked_ns int64
at_ns int64
""")
"""What a broker answered to DescribeTopicPartitions; a null ELR: the broker did not say."""

PARTITIONS = _schema("""
metadata_offset int64
metadata_epoch int32
at_ns int64
topic string
partition int32
leader int32
leader_epoch int32
partition_epoch int32
replicas list<int32>
isr list<int32>
elr list<int32>
last_known_elr list<int32>
adding list<int32>
removing list<int32>
leader_recovery_state int8
""")

BROKERS = _schema("""
metadata_offset int64
at_ns int64
broker int32
broker_epoch int64
incarnation string?
event string
metadata_version int16?
""")
"""`metadata_version`: the newest one that the broker supports, as it says when it registers; it shows the release."""

CONFIGS = _schema("""
metadata_offset int64
at_ns int64
resource string
name string
value string?
""")

REPLICAS = _schema("""
broker int32
topic string
partition int32
offset int64
leader_epoch int32
value int64?
producer_id int64
producer_epoch int16
sequence int32
control bool
timestamp_ms int64
""")

COMMITS = _schema("""
group string
topic string
partition int32
commit int64?
offset int64?
consumer int32?
broker int32?
offsets_partition int32
status string
error string?
asked_ns int64
done_ns int64?
""")
"""A commit of a group's offset (`status` acked, failed or unknown), or an answer of the coordinator (served).

`commit` is unique in a run: a commit carries it as its metadata, and an answer shows it. Null in an answer: the group
has no offset (`offset` null too), or one that no journal has.
"""

SENT_ONCE_NS = 50_000_000
"""A commit that was acked within this time was sent once: clients wait twice as long before they send it again.

Of any other, an earlier request may arrive after later commits, and be stored once more.
"""

COPIES = _schema("""
group string
topic string
partition int32
offset int64
copied_to string
producer int32
value int64
sent_ns int64
""")
"""A record that a copier sent to the topic `copied_to`, and the one that it copied: its topic, partition and offset.

The copier `producer` had read that record as a member of `group`. The outcome of `value` is in sends.
"""

WIRE = _schema("""
kind string
client string?
connection int32?
topic string?
partition int32?
offset int64?
last_offset int64?
digest int64?
acks int8?
status string?
error string?
producer_id int64?
producer_epoch int16?
sequence int32?
transactional_id string?
transactional bool?
commits bool?
group string?
leader_epoch int32?
high_watermark int64?
asked_ns int64?
done_ns int64?
broker int32?
""")
"""What clients of one's own sent and got through published ports, and what is left of it at the end (`kind`):

- produce: one record that a client sent. A retry is no second row. `status` acked, failed or unknown; `offset` where it
  was acked. `digest` is of key, value and headers, with a key that nobody keeps.
- fetch: one whole batch in an answer, `offset` to `last_offset`, and the partition's HW.
- commit, txn-commit: one offset that a group committed, or asked to commit with a transaction.
- end-txn: the end of a transaction that a client asked for; `commits`: a commit, no abort.
- init-producer: the producer id and epoch that a client got.
- final-log: one partition as it was read at the end: log start (`offset`) and HW. final: one of its records;
  `transactional`: it is in a transaction. final-marker: the end of a transaction in it; `commits`, or aborts.
- replica: one batch of the log that a `broker` has after the run, `offset` to `last_offset`. replica-log: such a log,
  from `offset` on; the next record would be at `last_offset`.
- final-group: a group whose coordinator said at the end what it has committed. final-commit: one of these offsets.
"""

HANDLED = _schema("""
topic string
partition int32
offset int64
group string?
at_ns int64?
""")
"""One record that a test said it had handled (`chaos.handled`), as a member of `group` if it said so.

`at_ns` null: the program did not say when.
"""

ANOMALY_SCHEMA = _schema("""
kind string?
topic string?
partition int32?
offset int64?
value int64?
details string?
""")
"""One anomaly in anomalies/, which judging writes; `details` is JSON."""

WITNESS_SCHEMA = _schema("""
topic string
partition int32
offset int64
value int64?
""")
"""One record in witness/ that Spark's connector returned; `value` null: not a record of this run, or a damaged one."""

TABLES: dict[str, pa.Schema] = {
    "sends": SENDS,
    "polls": POLLS,
    "watermarks": WATERMARKS,
    "described": DESCRIBED,
    "partitions": PARTITIONS,
    "brokers": BROKERS,
    "configs": CONFIGS,
    "replicas": REPLICAS,
    "commits": COMMITS,
    "copies": COPIES,
    "wire": WIRE,
    "handled": HANDLED,
}
