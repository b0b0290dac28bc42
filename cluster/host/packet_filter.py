"""Runs `nft` in a network namespace."""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Sequence
from pathlib import Path

from ebbtide.errors import HarnessError
from ebbtide.namespaces import netns_prefix


def nft(namespace: Path, words: Sequence[str], script: str = "", *, needs: str) -> bytes:
    """Run `nft` with these words in `namespace` and return its output.

    `script` is its input. Raises `HarnessError` where nft is missing or the kernel refuses; `needs` is then the
    advice.
    """
    if shutil.which("nft") is None:
        raise HarnessError("the command nft is missing", next="apt-get install nftables")
    result = subprocess.run(
        [*netns_prefix(namespace), "nft", *words], input=script.encode(), capture_output=True, check=False
    )
    if result.returncode != 0:
        raise HarnessError(
            "the packet filter refused a rule",
            where=f"nft in {namespace}",
            got=result.stderr.decode(errors="replace").strip(),
            next=needs,
        )
    return result.stdout
