"""`python -m ebbtide` is the `ebbtide` command."""

from __future__ import annotations

import sys

from ebbtide.command import main

if __name__ == "__main__":
    sys.exit(main())
