"""Where a broker cuts a log that ends in a torn write."""

from __future__ import annotations

import gzip
from pathlib import Path

from ebbtide.record.steps import StepEntry


def check_torn_log_is_cut(record: Path, torn: StepEntry) -> None:
    """The broker of a torn-write step cuts its log of t-0 where the proof of the step says that it is whole."""
    assert torn.proof["torn"]["t-0"]["damage"] is not None
    whole = torn.proof["logs"]["t-0"]["leo_after"]
    with gzip.open(record / "logs" / f"broker-{torn.nodes[0]}.log.gz", "rt") as log:
        cuts = [line for line in log if "partition=t-0" in line and "Corruption found" in line]
    # A volume that fails later may end in a torn write, too.
    assert [line.rstrip().endswith(f"truncating to offset {whole}") for line in cuts[:1]] == [True]
