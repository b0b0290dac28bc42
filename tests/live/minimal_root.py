"""A minimal Debian root in which a recipe's user runs commands: nothing that this host has installed is seen.

The host lends its network, its devices, and the settings of its package registries. The root is pivoted into, because
the kernel makes no user namespaces in a chroot.
"""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Mapping
from pathlib import Path

PACKAGES = ("python3", "git", "ca-certificates", "sudo")
USER = 1001
_OF_REGISTRIES = ("etc/pip.conf", "etc/apt/sources.list", "etc/apt/sources.list.d", "etc/apt/apt.conf.d")
_OF_REGISTRIES_TOO = ("etc/apt/keyrings", "etc/resolv.conf", "etc/hosts", "etc/ssl/certs")
_LENT = ("PIP_DEFAULT_TIMEOUT", "PIP_CERT", "PIP_INDEX_URL", "SSL_CERT_FILE", "SSL_CERT_DIR", "REQUESTS_CA_BUNDLE")
_INSIDE = """
mount --make-rprivate /
mount --bind "$root" "$root"
mount --rbind /dev "$root/dev"; mount -t proc proc "$root/proc"; mount --rbind /sys "$root/sys"
mount -t tmpfs tmpfs "$root/run"; mkdir -p "$root/.host"
cd "$root"; pivot_root . .host; cd "$folder"; umount -l /.host
exec setpriv --reuid $user --regid $user --init-groups bash -e -c "$command"
"""


class MinimalRoot:
    """A root in `folder`, with a user who may become root with sudo, and has a home."""

    def __init__(self, folder: Path, user: str) -> None:
        self.root = folder
        self.user = user
        words = ["mmdebstrap", "--quiet", "--variant=minbase", f"--include={','.join(PACKAGES)}", "bookworm"]
        tar = folder.with_suffix(".tar")
        subprocess.run([*words, str(tar)], check=True)
        folder.mkdir()
        subprocess.run(["tar", "-C", str(folder), "-xf", str(tar), "--exclude=./dev/*"], check=True)
        tar.unlink()
        (folder / "etc/apt/sources.list").unlink()
        for name in (*_OF_REGISTRIES, *_OF_REGISTRIES_TOO):
            subprocess.run(["cp", "-aL", "--remove-destination", f"/{name}", str((folder / name).parent)], check=False)
        self.home = folder / "home" / user
        self.home.mkdir()
        for name, line in (
            ("passwd", f"{user}:x:{USER}:{USER}::/home/{user}:/bin/bash"),
            ("group", f"{user}:x:{USER}:"),
            ("shadow", f"{user}:*:20000:0:99999:7:::"),
        ):
            with (folder / "etc" / name).open("a") as file:
                file.write(f"{line}\n")
        (folder / "etc/sudoers.d/user").write_text(
            f"{user} ALL=(ALL) NOPASSWD: ALL\nDefaults env_keep += DEBIAN_FRONTEND\n"
        )
        for settings in (Path.home() / ".m2/settings.xml", Path("/etc/maven/settings.xml")):
            if settings.exists():
                (self.home / ".m2").mkdir(exist_ok=True)
                shutil.copy(settings, self.home / ".m2/settings.xml")
                break

    def give(self, path: Path) -> None:
        """Give the user everything below a path of the root."""
        subprocess.run(["chown", "-R", f"{USER}:{USER}", str(path)], check=True)

    def run(self, command: str, folder: str, timeout_s: float, **environment: str) -> subprocess.CompletedProcess[str]:
        """Run lines of a shell as the user, in a folder of the root."""
        lent = {name: os.environ[name] for name in _LENT if name in os.environ}
        own: Mapping[str, str] = {
            "HOME": f"/home/{self.user}",
            "PATH": "/usr/local/bin:/usr/bin:/bin:/usr/sbin:/sbin",
            "LANG": "C.UTF-8",
            "DEBIAN_FRONTEND": "noninteractive",
            "root": str(self.root),
            "folder": folder,
            "user": str(USER),
            "command": command,
        }
        return subprocess.run(
            ["unshare", "--mount", "--pid", "--fork", "--kill-child", "bash", "-e", "-c", _INSIDE],
            env={**lent, **own, **environment},
            capture_output=True,
            text=True,
            timeout=timeout_s,
            check=False,
        )
