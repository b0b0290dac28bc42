"""Check the prose that users read: `python -m tools.prose [PATH...]`.

Reports sentences of more than 25 words, and the words that tools/prose/words.toml replaces. It reads README.md,
CHANGELOG.md, changes/, docs/, the help of every verb, and the titles, descriptions and clauses of the scenarios. PATH
is a file or a folder. Without PATH it checks everything.
"""

from __future__ import annotations

import argparse
import sys
from collections import Counter
from collections.abc import Sequence
from pathlib import Path

from tools.prose.findings import findings, read_words
from tools.prose.sources import ROOT, passages


def main(argv: Sequence[str]) -> int:
    """Print the findings; 1 if there are any."""
    parser = argparse.ArgumentParser(
        prog="python -m tools.prose", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("paths", nargs="*", type=Path, metavar="PATH")
    parser.add_argument("--count", action="store_true", help="print the number of findings of each file instead")
    args = parser.parse_args(argv)
    if outside := [str(path) for path in args.paths if not path.resolve().is_relative_to(ROOT)]:
        parser.error(f"not in {ROOT}: {', '.join(outside)}")
    wanted = [path.resolve().relative_to(ROOT) for path in args.paths]
    words = read_words()
    checking = [one for one in passages() if _is_in(one.path, wanted)]
    checked = {one.path for one in checking}
    if not checked:
        parser.error("no prose is checked there: see python -m tools.prose --count")
    found = [one for passage in checking for one in findings(passage, words)]
    if args.count:
        for path, count in sorted(Counter(one.path for one in found).items()):
            print(f"{count:5} {path}")
        print(f"{len(found):5} in {len(checked)} files")
        return 0
    for one in sorted(found, key=lambda one: (one.path, one.line)):
        print(one)
    print(f"prose: {len(found)} findings in {len(checked)} files")
    return 1 if found else 0


def _is_in(path: str, wanted: Sequence[Path]) -> bool:
    """Whether a path is one of those, or in one; every path is in none."""
    return not wanted or any(Path(path).is_relative_to(one) for one in wanted)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
