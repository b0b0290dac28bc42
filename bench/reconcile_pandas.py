"""The checks of analysis.reconcile with pandas, all in memory.

The records are like those of bench.made_record.
"""

from __future__ import annotations

from pathlib import Path

import pandas as pd

from bench.made_record import FINAL

_AT = ["topic", "partition", "offset"]
_VALUE = ["topic", "partition", "value"]


def count_anomalies(record: Path) -> dict[str, int]:
    """The number of items of each kind that has any."""
    columns = {
        "sends": [*_AT, "value", "producer", "sequence", "status"],
        "polls": [*_AT, "value", "consumer", "session", "prev_offset", "polled_ns"],
        "watermarks": ["topic", "partition", "broker", "leader_epoch", "high_watermark", "source", "asked_ns", "at_ns"],
        "replicas": ["broker", *_AT, "leader_epoch", "value"],
    }
    tables = {name: pd.read_parquet(record / name, columns=wanted) for name, wanted in columns.items()}
    for table in tables.values():
        table["topic"] = table["topic"].astype("category")
    sends, polls, replicas = tables["sends"], tables["polls"], tables["replicas"]
    acked = sends[(sends["status"] == "acked") & sends["offset"].notna()].astype({"offset": "int64"})
    final, ordinary = polls[polls["consumer"] == FINAL], polls[polls["consumer"] != FINAL]
    good = polls[polls["value"].notna()].astype({"value": "int64"})
    good_final = good[good["consumer"] == FINAL]
    places = pd.concat([acked[[*_AT, "value"]], good[[*_AT, "value"]]]).drop_duplicates()
    found = {
        "lost": _count_lost(acked, good_final, polls, replicas),
        "unseen": _unseen(final, ordinary),
        "vanished": _count_vanished(good, final),
        "inconsistent-offset": _more_than_one(places, _AT),
        "duplicate": _more_than_one(places, ["value"]),
        "aborted-read": sends[(sends["status"] == "failed") & sends["value"].isin(good["value"])]["value"].nunique(),
        "dirty-order": _disorder(acked, good_final),
        "poll-skip": _skips(polls, final),
        "poll-back": int((polls["offset"] <= polls["prev_offset"]).sum()),
        "hw-regression": _regressions(tables["watermarks"]),
        "replica-divergence": _divergence(replicas, tables["watermarks"]),
        "damaged": len(polls[polls["value"].isna()][_AT].drop_duplicates()),
    }
    return {kind: int(count) for kind, count in found.items() if count}


def _rows_without(rows: pd.DataFrame, others: pd.DataFrame, on: list[str]) -> pd.DataFrame:
    merged = rows.merge(others[on].drop_duplicates(), on=on, how="left", indicator=True)
    return merged[merged["_merge"] == "left_only"].drop(columns="_merge")


def _more_than_one(rows: pd.DataFrame, by: list[str]) -> int:
    return int((rows.groupby(by, observed=True).size() > 1).sum())


def _count_lost(acked: pd.DataFrame, final: pd.DataFrame, polls: pd.DataFrame, replicas: pd.DataFrame) -> int:
    gone = _rows_without(acked, final, _VALUE)
    gone = _rows_without(gone, replicas[replicas["broker"] == 1], _VALUE)
    return int(_rows_without(gone, polls[polls["value"].isna()], _AT)["value"].nunique())


def _unseen(final: pd.DataFrame, ordinary: pd.DataFrame) -> int:
    left = _rows_without(final[_AT].drop_duplicates(), ordinary, _AT)
    ranges = ordinary.groupby(["topic", "partition", "consumer", "session"], observed=True)["offset"].agg(
        ["min", "max"]
    )
    passed = left.merge(ranges.reset_index(), on=["topic", "partition"])
    passed = passed[(passed["min"] < passed["offset"]) & (passed["offset"] < passed["max"])]
    return len(passed[_AT].drop_duplicates())


def _count_vanished(good: pd.DataFrame, final: pd.DataFrame) -> int:
    read = good[good["consumer"] != FINAL]
    there = final[[*_AT, "value"]].rename(columns={"value": "final_value"})
    merged = read.merge(there, on=_AT, how="left", indicator=True)
    value = merged["final_value"]
    gone = (merged["_merge"] == "left_only") | (value.notna() & (value != merged["value"]))
    return len(merged[gone][[*_AT, "value"]].drop_duplicates())


def _disorder(acked: pd.DataFrame, final: pd.DataFrame) -> int:
    ordered = acked.sort_values(["partition", "producer", "sequence"])
    before = ordered.groupby(["topic", "partition", "producer"], observed=True)[["offset", "value"]].shift()
    pairs = ordered.assign(offset=before["offset"], value=before["value"])[ordered["offset"] < before["offset"]]
    return len(pairs.merge(final[[*_AT, "value"]], on=[*_AT, "value"]))


def _skips(polls: pd.DataFrame, final: pd.DataFrame) -> int:
    skips = 0
    jumps = polls[polls["offset"] > polls["prev_offset"] + 1]
    for place, of_partition in jumps.groupby(["topic", "partition"], observed=True):
        here = final[(final["topic"] == place[0]) & (final["partition"] == place[1])]
        stands = here["offset"].drop_duplicates().sort_values().to_numpy()
        below = stands.searchsorted(of_partition["offset"].to_numpy(), side="left")
        skips += int((below > stands.searchsorted(of_partition["prev_offset"].to_numpy(), side="right")).sum())
    return skips


def _regressions(watermarks: pd.DataFrame) -> int:
    served = watermarks[(watermarks["source"] == "list_offsets") & watermarks["leader_epoch"].notna()]
    served = served.sort_values("at_ns")
    most = served.groupby(["topic", "partition"], observed=True)["high_watermark"].cummax()
    return int((most > served["high_watermark"]).sum())


def _divergence(replicas: pd.DataFrame, watermarks: pd.DataFrame) -> int:
    last = watermarks[watermarks["source"] == "checkpoint"].sort_values("at_ns")
    last = last.drop_duplicates(["topic", "partition", "broker"], keep="last")
    merged = replicas.merge(
        last[["topic", "partition", "broker", "high_watermark"]], on=["topic", "partition", "broker"]
    )
    below = merged[merged["offset"] < merged["high_watermark"]]
    return _more_than_one(below[[*_AT, "value"]].drop_duplicates(), _AT)
