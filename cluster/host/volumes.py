"""A node's data volume: ext4 or xfs in a loop-mounted sparse file, which can lose power.

Losing power has three steps. FS_IOC_SHUTDOWN without a log flush makes the file system refuse everything and forget
what was not fsynced. Unmounting drops it from memory. Mounting again replays the journal as a boot would.
"""

from __future__ import annotations

import contextlib
import ctypes
import errno
import fcntl
import os
import re
import shutil
import struct
import subprocess
from pathlib import Path

import msgspec

from ebbtide.errors import HarnessError
from ebbtide.scenario.model import FileSystem
from ebbtide.waiting import WaitExpired, wait_until

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


DEFAULT_SIZE_BYTES = 2 << 30
"""The file is sparse: only what is written takes room on the host."""

UNMOUNT_TIMEOUT_S = 5.0

_EXT4_IOC_SHUTDOWN = 0x8004587D  # _IOR('X', 125, __u32), the same number on xfs and f2fs
# NOLOGFLUSH: the other flags write the journal out first, so that nothing would be lost.
_NO_LOG_FLUSH = 2
_UMOUNT_NOFOLLOW = 8

_BLOCK_BYTES = 4096
_UNSYNCED = b"not fsynced\n" * 512

_libc = ctypes.CDLL(None, use_errno=True)

# Initialising lazily leaves work to a kernel thread; noinit_itable keeps that thread from ever starting.
_MKFS: dict[FileSystem, tuple[str, ...]] = {
    "ext4": ("mkfs.ext4", "-q", "-F", "-m", "0", "-E", "lazy_itable_init=1,lazy_journal_init=1,nodiscard"),
    "xfs": ("mkfs.xfs", "-q", "-f", "-K"),
}
_MOUNT_OPTIONS: dict[FileSystem, str] = {"ext4": "noatime,noinit_itable", "xfs": "noatime,nouuid"}
_PACKAGES: dict[FileSystem, str] = {"ext4": "e2fsprogs", "xfs": "xfsprogs"}


class Volume(msgspec.Struct, frozen=True, kw_only=True, tag_field="kind", tag="volume"):
    """Ledger entry: the file system in `image`, mounted at `folder` by a loop device.

    Both paths have no symbolic links (`Volume.at`): the kernel names them so, and only what it names so is undone. With
    `image_identity` the volume is also found after a folder above it was renamed.
    """

    image: str
    folder: str
    file_system: FileSystem = "ext4"
    image_identity: str = ""

    @classmethod
    def at(cls, image: Path, folder: Path, file_system: FileSystem = "ext4") -> Volume:
        """Return the volume of these paths, with symbolic links resolved."""
        return cls(image=str(image.resolve()), folder=str(folder.resolve()), file_system=file_system)

    def create(self, size_bytes: int = DEFAULT_SIZE_BYTES) -> None:
        """Make the image file and its file system; both paths must be free.

        Raises `HarnessError`.
        """
        image = Path(self.image)
        image.parent.mkdir(parents=True, exist_ok=True)
        with image.open("xb") as file:
            file.truncate(size_bytes)
        Path(self.folder).mkdir(parents=True, exist_ok=True)
        self._make_file_system()

    def with_identity(self) -> Volume:
        """Return the volume with the identity of its image, which must exist. Raises `OSError`."""
        return msgspec.structs.replace(self, image_identity=identity_of(Path(self.image)))

    def replace(self) -> None:
        """Mount an empty disk of the same size instead. Raises `HarnessError`."""
        self.unmount()
        size_bytes = os.stat(self.image).st_size
        os.truncate(self.image, 0)
        os.truncate(self.image, size_bytes)
        self._make_file_system()
        self.mount()

    def mount(self) -> None:
        """Mount the volume through a new loop device. Raises `HarnessError`.

        The kernel frees the loop device by itself on unmount. The device is always new: a process that unshared its
        mount namespace meanwhile (a container, a service) holds a copy of the old mount. That copy keeps the old
        device, and a file system that is shut down for good.
        """
        device = _run(["losetup", "--find", "--show", self.image], package="mount").strip()
        try:
            kind = self.file_system
            _run(["mount", "-t", kind, "-o", _MOUNT_OPTIONS[kind], device, self.folder], package="mount")
        finally:
            # A device in use is only marked: it is freed with its last user.
            _run(["losetup", "--detach", device], package="mount")

    def sync(self) -> None:
        """Write all dirty pages to the image. Raises `OSError`."""
        handle = os.open(self.folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            if _libc.syncfs(handle) != 0:
                raise OSError(ctypes.get_errno(), f"syncing {self.folder}")
        finally:
            os.close(handle)

    def write_unsynced(self, *, at_the_cut: bool = False) -> None:
        """Write a file that is never fsynced, so that a power loss must take it.

        The file of `at_the_cut` is another one: if the first was written back, a power loss would bring it back.
        """
        unsynced = self._unsynced_file(at_the_cut=at_the_cut)
        unsynced.unlink(missing_ok=True)
        unsynced.write_bytes(_UNSYNCED)

    def has_unsynced(self, *, at_the_cut: bool = False) -> bool:
        """Whether the unsynced file's content is on the volume.

        The name alone may survive: journals commit names by themselves.
        """
        try:
            return self._unsynced_file(at_the_cut=at_the_cut).read_bytes() == _UNSYNCED
        except OSError:
            return False

    def unmount(self) -> None:
        """Unmount the volume. Raises `HarnessError` with the processes that keep it busy."""

        def is_unmounted() -> bool:
            result = subprocess.run(["umount", self.folder], capture_output=True, text=True, check=False)
            return result.returncode == 0 or not self.is_mounted()

        try:
            wait_until(is_unmounted, awaited=f"{self.folder} to unmount", timeout_s=UNMOUNT_TIMEOUT_S, poll_s=0.1)
        except WaitExpired:
            raise self._busy_error(self.folder) from None

    def shut_down(self) -> bool:
        """Cut the power: what is not fsynced will never reach the disk.

        Returns True when a probe saw the volume refuse a write. Raises `OSError` when the file system does not know
        the request.
        """
        handle = os.open(self.folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            fcntl.ioctl(handle, _EXT4_IOC_SHUTDOWN, struct.pack("I", _NO_LOG_FLUSH))
        finally:
            os.close(handle)
        # Blocks committed to the journal may be written at any time; flush them now, before the next mount.
        for device in self._loop_devices():
            _run(["blockdev", "--flushbufs", device], package="util-linux")
        return self._refuses_writes()

    def fill(self) -> int:
        """Fill the volume with one file until no byte is free; returns the file's size.

        `free` removes it. The blocks are allocated, not written: the image stays as sparse as it is. Raises
        `OSError`.
        """
        handle = os.open(self._ballast(), os.O_RDWR | os.O_CREAT | os.O_CLOEXEC)
        try:
            size_bytes = os.fstat(handle).st_size
            # In ever smaller pieces: the room left at the end is smaller than any of them.
            piece = 1 << 30
            while piece >= _BLOCK_BYTES:
                try:
                    os.posix_fallocate(handle, size_bytes, piece)
                    size_bytes += piece
                except OSError as error:
                    if error.errno != errno.ENOSPC:
                        raise
                    piece //= 2
            return size_bytes
        finally:
            os.close(handle)

    def free(self) -> None:
        """Remove the file that `fill` made."""
        self._ballast().unlink(missing_ok=True)

    def set_read_only(self) -> None:
        """Make the volume read-only, as the kernel does after an I/O error.

        Open files accept no more writes; reads continue. The journal ends here: data that was not fsynced is lost at
        the next mount. Raises `HarnessError`.
        """
        _run(["mount", "-o", "remount,abort", self.folder], package="mount")

    def write_error(self) -> int | None:
        """Return the errno with which a small write fails; None when it succeeds."""
        probe = Path(self.folder) / ".ebbtide-probe"
        try:
            handle = os.open(probe, os.O_CREAT | os.O_WRONLY | os.O_CLOEXEC)
            try:
                os.write(handle, bytes(_BLOCK_BYTES))
            finally:
                os.close(handle)
                probe.unlink()
        except OSError as error:
            return error.errno
        return None

    def is_mounted(self) -> bool:
        """Whether something is mounted at the folder."""
        return os.path.realpath(self.folder) in {point for _, point in mounts()}

    def undo(self) -> bool:
        """Unmount and free the loop device; returns True when either existed.

        Only mounts of a loop device of the image are undone, wherever the kernel says that they are. The image stays
        with the run.
        """
        mounted = mounts_of(self.image, self.image_identity)
        for point in mounted:
            self._unmount_own(point)
        devices = self._loop_devices()
        for device in devices:
            # The device is already free where the mount held the last reference.
            subprocess.run(["losetup", "-d", device], capture_output=True, check=False)
        self._await_free_devices()
        return bool(mounted or devices)

    def describe(self) -> str:
        """Return how messages name the volume."""
        return f"volume {self.folder} (loop mount of {self.image})"

    def _unmount_own(self, point: str) -> None:
        """Unmount what is mounted of this volume at `point`. Raises `HarnessError`."""

        def is_unmounted() -> bool:
            there = [device for device, one in mounts() if one == point]
            own = set(loop_devices_of(self.image, self.image_identity).values())
            if own.isdisjoint(there):
                return True
            # The newest mount of a folder is the one that would be unmounted.
            if there[-1] not in own:
                raise HarnessError("something else is mounted over a volume", where=point, next=f"umount {point}")
            return bool(_libc.umount2(os.fsencode(point), _UMOUNT_NOFOLLOW) == 0)

        try:
            wait_until(is_unmounted, awaited=f"{point} to unmount", timeout_s=UNMOUNT_TIMEOUT_S, poll_s=0.1)
        except WaitExpired:
            raise self._busy_error(point) from None

    def _await_free_devices(self) -> None:
        """Wait until the kernel has freed the image's loop devices, for a few seconds at most.

        The kernel frees a device with its last user, which may be a process that ends at this moment. A copy of the
        mount in a foreign mount namespace can keep a device for longer: the kernel frees it when that namespace ends.
        """
        with contextlib.suppress(WaitExpired):
            awaited = f"the loop devices of {self.image} to be freed"
            wait_until(lambda: not self._loop_devices(), awaited=awaited, timeout_s=UNMOUNT_TIMEOUT_S, poll_s=0.05)

    def _busy_error(self, point: str) -> HarnessError:
        return HarnessError(
            "a volume cannot be unmounted, because it is in use",
            where=point,
            got=f"used by {_users_of(point) or 'a process in another mount namespace'}",
            next="end those processes, then: ebbtide clean",
        )

    def _make_file_system(self) -> None:
        _run([*_MKFS[self.file_system], self.image], package=_PACKAGES[self.file_system])

    def _ballast(self) -> Path:
        return Path(self.folder) / ".ebbtide-ballast"

    def _unsynced_file(self, *, at_the_cut: bool) -> Path:
        return Path(self.folder) / (".ebbtide-not-synced-at-the-cut" if at_the_cut else ".ebbtide-not-synced")

    def _refuses_writes(self) -> bool:
        try:
            handle = os.open(Path(self.folder) / ".ebbtide-probe", os.O_CREAT | os.O_EXCL | os.O_WRONLY)
        except OSError as error:
            return error.errno in (errno.EIO, errno.ESHUTDOWN)
        os.close(handle)
        return False

    def _loop_devices(self) -> list[str]:
        return list(loop_devices_of(self.image, self.image_identity))


def _run(command: list[str], *, package: str) -> str:
    """Run a host command and return its output.

    A failure becomes a `HarnessError` that says how to fix it.
    """
    if shutil.which(command[0]) is None:
        raise HarnessError(f"the command {command[0]} is missing", next=f"apt-get install {package}")
    result = subprocess.run(command, capture_output=True, text=True, check=False)
    if result.returncode != 0:
        raise HarnessError(
            f"{command[0]} failed",
            where=" ".join(command),
            got=result.stderr.strip() or f"exit code {result.returncode}",
            next="run as root on a host with loop devices",
        )
    return result.stdout


def _users_of(folder: str) -> str:
    """Return `pid (command)` of each process with an open file below `folder`."""
    prefix = os.path.realpath(folder) + "/"
    users = []
    for process in Path("/proc").glob("[0-9]*"):
        try:
            if any(os.readlink(file).startswith(prefix) for file in (process / "fd").iterdir()):
                users.append(f"{process.name} ({(process / 'comm').read_text().strip()})")
        except OSError:
            continue
    return ", ".join(users)
