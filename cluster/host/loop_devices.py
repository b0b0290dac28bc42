"""Finds the loop devices of an image, and where they are mounted, as the kernel knows them."""

from __future__ import annotations

import fcntl
import os
import re
import struct
from pathlib import Path

_LOOP_GET_STATUS64 = 0x4C05
_LOOP_INFO64_BYTES = 232
_DELETED = " (deleted)"


def identity_of(file: Path) -> str:
    """Return what the kernel knows a file by, whatever its name: `device:inode`. Follows no link. Raises `OSError`."""
    status = os.lstat(file)
    return f"{status.st_dev}:{status.st_ino}"


def loop_devices_of(image: str, identity: str = "") -> dict[str, str]:
    """Return the loop devices backed by an image, also after its file was deleted, with their numbers.

    The numbers are `major:minor`. With the image's `identity` it is also found where a folder above it has another
    name by now. Without it, the image's path must be the kernel's own name for it: no link is followed.
    """
    found = {}
    for backing in Path("/sys/block").glob("loop*/loop/backing_file"):
        try:
            path = backing.read_text().rstrip("\n")
            device = f"/dev/{backing.parts[3]}"
            if _is_backed_by(device, path.removesuffix(_DELETED), image, identity):
                found[device] = (backing.parents[1] / "dev").read_text().strip()
        except OSError:  # the device was freed between the listing and the reading
            continue
    return found


def _is_backed_by(device: str, path: str, image: str, identity: str) -> bool:
    if os.path.basename(path) != os.path.basename(image):
        return False
    backing = _backing_identity(device) if identity else None
    return path == image if backing is None else backing == identity


def _backing_identity(device: str) -> str | None:
    """Return the identity of a loop device's file; None if the device cannot be asked."""
    try:
        opened = os.open(device, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    except OSError:
        return None
    try:
        status = fcntl.ioctl(opened, _LOOP_GET_STATUS64, bytes(_LOOP_INFO64_BYTES))
    except OSError:
        return None
    finally:
        os.close(opened)
    file_system, inode = struct.unpack_from("=QQ", status)
    return f"{file_system}:{inode}"


def mounts() -> list[tuple[str, str]]:
    """Return the device (`major:minor`) and folder of each mount that this process sees, oldest first."""
    found = []
    for line in Path("/proc/self/mountinfo").read_text().splitlines():
        words = line.split()
        # Blanks and backslashes are written as octal escapes.
        point = re.sub(r"\\([0-7]{3})", lambda octal: chr(int(octal[1], 8)), words[4])
        found.append((words[2], point))
    return found


def mounts_of(image: str, identity: str = "") -> list[str]:
    """Return where loop devices of an image are mounted, oldest first."""
    own = set(loop_devices_of(image, identity).values())
    return [point for device, point in mounts() if device in own]
