"""The checks of analysis.reconcile as DuckDB SQL.

The records are like those of bench.made_record. The SQL finds the same items by the same rules. It leaves out
what such records never hold (transactions, retention, several leaders), which only makes it faster.
"""

from __future__ import annotations

from pathlib import Path

import duckdb

from bench.made_record import FINAL

_MACROS = f"""
create view final as select * from polls where consumer = {FINAL};
create view ordinary as select * from polls where consumer <> {FINAL};
create view acked as select * from sends where status = 'acked' and "offset" is not null;
create view leader_log as select r.* from replicas r join (
  select topic, partition, arg_max(leader, metadata_offset) as broker from partitions group by all
) using (topic, partition, broker);
create view places as
  select topic, partition, "offset", value from acked union
  select topic, partition, "offset", value from polls where value is not null;
"""

QUERIES = {
    "lost": """
        select count(distinct value) from acked a
        where not exists (select 1 from final f where (f.topic, f.partition, f.value) = (a.topic, a.partition, a.value))
          and not exists (select 1 from leader_log l
                          where (l.topic, l.partition, l.value) = (a.topic, a.partition, a.value))
          and not exists (select 1 from polls p where p.value is null
                          and (p.topic, p.partition, p."offset") = (a.topic, a.partition, a."offset"))""",
    "unseen": """
        with ranges as (select topic, partition, min("offset") as low, max("offset") as high
                        from ordinary group by topic, partition, consumer, session)
        select count(*) from (select distinct topic, partition, "offset" from final f
          where not exists (select 1 from ordinary o
                            where (o.topic, o.partition, o."offset") = (f.topic, f.partition, f."offset"))
            and exists (select 1 from ranges r where r.topic = f.topic and r.partition = f.partition
                        and r.low < f."offset" and r.high > f."offset"))""",
    "vanished": """
        select count(*) from (select distinct topic, partition, "offset", value from ordinary o
          where value is not null and (
            exists (select 1 from polls p where (p.topic, p.partition, p."offset") = (o.topic, o.partition, o."offset")
                    and p.value <> o.value and p.polled_ns > o.polled_ns)
            or (not exists (select 1 from final f where (f.topic, f.partition, f."offset") =
                            (o.topic, o.partition, o."offset") and (f.value = o.value or f.value is null))
                and not exists (select 1 from leader_log l where (l.topic, l.partition, l."offset", l.value) =
                                (o.topic, o.partition, o."offset", o.value)))))""",
    "inconsistent-offset": """
        select count(*) from (select 1 from places group by topic, partition, "offset" having count(*) > 1)""",
    "duplicate": "select count(*) from (select 1 from places group by value having count(*) > 1)",
    "aborted-read": """
        select count(distinct s.value) from sends s join polls p using (value)
        where s.status = 'failed' or (s.txn_outcome = 'aborted' and p.isolation = 'read_committed')""",
    "dirty-order": """
        with ordered as (select *, lag("offset") over w as before, lag(value) over w as before_value from acked
                         window w as (partition by topic, partition, producer order by sequence))
        select count(*) from ordered o where "offset" < before and exists (
          select 1 from final f where (f.topic, f.partition, f."offset", f.value) =
                                      (o.topic, o.partition, o.before, o.before_value))""",
    "poll-skip": """
        with stands as (select distinct topic, partition, "offset" from final),
             ranked as (select *, row_number() over (partition by topic, partition order by "offset") as rank
                        from stands),
             jumps as (select row_number() over () as jump, topic, partition, prev_offset, "offset" from polls
                       where "offset" > prev_offset + 1),
             ends as (select j.jump, r.rank from jumps j asof join ranked r on r.topic = j.topic
                        and r.partition = j.partition and j."offset" > r."offset"),
             starts as (select j.jump, r.rank from jumps j asof join ranked r on r.topic = j.topic
                        and r.partition = j.partition and j.prev_offset >= r."offset")
        select count(*) from ends left join starts using (jump) where ends.rank > coalesce(starts.rank, 0)""",
    "poll-back": """select count(*) from polls where "offset" <= prev_offset""",
    "hw-regression": """
        with observed as (select * from watermarks where source = 'list_offsets' and leader_epoch is not null),
             before as (select *, max(high_watermark) over (partition by topic, partition order by at_ns
                                                            rows between unbounded preceding and 1 preceding) as most
                        from observed)
        select count(*) from before where most > high_watermark""",
    "replica-divergence": """
        with checkpoints as (select topic, partition, broker, arg_max(high_watermark, at_ns) as hw
                             from watermarks where source = 'checkpoint' group by all),
             below as (select r.* from replicas r join checkpoints c using (topic, partition, broker)
                       where "offset" < hw)
        select count(*) from (select 1 from below group by topic, partition, "offset"
          having count(distinct coalesce(value, -1)) > 1 or count(distinct leader_epoch) > 1)""",
    "damaged": """
        select count(*) from (select distinct topic, partition, "offset" from polls where value is null)""",
}


def count_anomalies(record: Path, *, threads: int, memory: str, scratch: Path) -> dict[str, int]:
    """The number of items of each kind that has any."""
    with duckdb.connect() as db:
        db.execute(f"set threads = {threads}; set memory_limit = '{memory}'; set temp_directory = '{scratch}'")
        for table in ("sends", "polls", "watermarks", "partitions", "replicas"):
            db.execute(f"create view {table} as select * from read_parquet('{record}/{table}/*.parquet')")
        db.execute(_MACROS)
        found = {kind: db.execute(query).fetchone() for kind, query in QUERIES.items()}
    return {kind: row[0] for kind, row in found.items() if row and row[0]}
