"""Makes the class archive of Spark's JVM before the tests, if this host has none for this environment.

`python -m tools.class_archive`. Until there is one, each JVM that judges loads its classes without it, and writes
another: about 40 s of CPU time each, in every test that starts one.
"""

from __future__ import annotations

from analysis.judging.warm_up import load_common_classes_if_first
from analysis.spark.java_start import is_first_session
from analysis.spark.session import session


def main() -> None:
    if is_first_session():
        with session() as spark:
            load_common_classes_if_first(spark)


if __name__ == "__main__":
    main()
