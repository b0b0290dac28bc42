"""Keeps frames that several jobs read, so that each is computed once.

They are kept until the result has been read. A kept frame is a leaf of the plans that are built on
it. Spark goes through the whole plan below a frame at each step that is built on it, and the plans
here are built on each other: that took more time than all other planning.
"""

from __future__ import annotations

from types import TracebackType
from typing import Self, overload

from pyspark import StorageLevel
from pyspark.sql import DataFrame, SparkSession


class FrameKeeper:
    """Keeps frames from their first use until the end of the block."""

    def __init__(self, spark: SparkSession) -> None:
        self._spark = spark
        self._frames: list[DataFrame] = []

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for frame in self._frames:
            frame.unpersist()

    @overload
    def keep(self, frame: DataFrame) -> DataFrame: ...

    @overload
    def keep(self, frame: None) -> None: ...

    def keep(self, frame: DataFrame | None) -> DataFrame | None:
        """Return the same rows, computed when a job first needs them, and kept.

        They are in memory as far as there is room, else on disk. What a lost executor held is
        computed anew.
        """
        if frame is None:
            return None
        self._frames.append(frame.persist(StorageLevel.MEMORY_AND_DISK))
        # The plan of a persisted frame is a leaf that reads the kept rows. So is a local
        # checkpoint, but its rows are lost with the executor that held them.
        dataset = self._spark._jvm.org.apache.spark.sql.classic.Dataset  # type: ignore[union-attr]
        leaf = frame._jdf.queryExecution().withCachedData()
        return DataFrame(dataset.ofRows(self._spark._jsparkSession, leaf), self._spark)
