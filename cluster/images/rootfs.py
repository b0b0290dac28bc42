"""Makes the root file system of a Kafka image from what is installed on this host.

It has a trimmed Java, glibc and a shell. It is byte for byte the same as long as the host's packages are, so that all
releases share its layers.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from pathlib import Path

from ebbtide.errors import HarnessError
from ebbtide.java import find_java

JDK_INSTALL = "apt-get install --no-install-recommends default-jdk-headless"
BUSYBOX_INSTALL = "apt-get install --no-install-recommends busybox-static"

# What brokers and controllers of 3.3 to 4.4 load, by jdeps and by trying; java.desktop for java.beans.
_MODULES = (
    "java.base",
    "java.desktop",
    # for Java agents
    "java.instrument",
    "java.logging",
    "java.management",
    "java.naming",
    "java.net.http",
    "java.rmi",
    "java.security.jgss",
    "java.security.sasl",
    "java.sql",
    "jdk.crypto.ec",
    "jdk.management",
    "jdk.security.jgss",
    "jdk.unsupported",
    "jdk.zipfs",
)

_ETC = {
    "passwd": "root:x:0:0:root:/root:/bin/sh\nnobody:x:65534:65534:nobody:/nonexistent:/bin/false\n",
    "group": "root:x:0:\nnogroup:x:65534:\n",
    "nsswitch.conf": "passwd: files\ngroup: files\nhosts: files dns\n",
}


def missing_tool() -> str | None:
    """Return which tool is missing, and the command that installs it; or None."""
    if _jlink() is None:
        return f"no jlink on this host, which trims Java: {JDK_INSTALL}"
    if _busybox() is None:
        return f"no busybox on this host, the image's shell: {BUSYBOX_INSTALL}"
    return None


def make_rootfs(into: Path) -> None:
    """Fill the new folder `into`. Raises `HarnessError` when a tool fails."""
    jlink, busybox = _jlink(), _busybox()
    if jlink is None or busybox is None:
        raise HarnessError("no Kafka image can be built here", got=missing_tool())
    for folder in ("bin", "etc", "opt", "proc", "root", "run", "sys", "tmp", "usr/bin", "usr/sbin", "sbin", "var"):
        (into / folder).mkdir(parents=True)
    (into / "tmp").chmod(0o1777)
    for name, text in _ETC.items():
        (into / "etc" / name).write_text(text)
    _run(
        [
            str(jlink),
            f"--add-modules={','.join(_MODULES)}",
            # Not --strip-debug, which needs binutils: a packaged Java's libraries have no symbols left to strip.
            "--strip-java-debug-attributes",
            "--no-header-files",
            "--no-man-pages",
            # Its libraries for windows and fonts would need X11's libraries.
            "--exclude-files=/java.desktop/lib/**",
            f"--output={into / 'opt/java'}",
        ]
    )
    _add_busybox(busybox, into)
    _add_libraries(into)


def _jlink() -> Path | None:
    """Return the jlink of the Java that runs Kafka here, or the jlink on PATH."""
    java = find_java()
    beside = java.executable.resolve().parent / "jlink" if java is not None else None
    if beside is not None and os.access(beside, os.X_OK):
        return beside
    on_path = shutil.which("jlink")
    return Path(on_path) if on_path is not None else None


def _busybox() -> Path | None:
    found = shutil.which("busybox")
    return Path(found) if found is not None else None


def _add_busybox(busybox: Path, into: Path) -> None:
    shutil.copyfile(busybox, into / "bin/busybox")
    (into / "bin/busybox").chmod(0o755)
    for applet in _run([str(busybox), "--list-full"]).split():
        link = into / applet
        if applet != "bin/busybox":
            link.parent.mkdir(parents=True, exist_ok=True)
            link.symlink_to("/bin/busybox")


def _add_libraries(into: Path) -> None:
    """Copy each shared library that a program in `into` needs to its place in it."""
    programs = [path for path in sorted(into.rglob("*")) if path.is_file() and not path.is_symlink() and _is_elf(path)]
    missing: set[str] = set()
    for program in programs:
        # Java's own libraries find each other.
        own = {path.name for path in programs}
        for name, path in _libraries_of(program):
            if path is not None and not path.is_relative_to(into):
                target = into / str(path).lstrip("/")
                if not target.exists():
                    target.parent.mkdir(parents=True, exist_ok=True)
                    shutil.copyfile(path, target)
                    target.chmod(0o755)
            elif path is None and name not in own:
                missing.add(f"{name} ({program.name})")
    if missing:
        raise HarnessError("libraries that the image needs are not on this host", got=", ".join(sorted(missing)))


def _libraries_of(program: Path) -> list[tuple[str, Path | None]]:
    """Return `(name, file)` of each library that `program` needs, with its loader.

    The file is None for a library that is not found.
    """
    # ldd ends with exit code 1 for a static program, which is not an error.
    listing = subprocess.run(["ldd", str(program)], capture_output=True, text=True, check=False).stdout
    found = re.findall(r"^\s+(\S+) => (?:(/\S+) \(|not found)", listing, re.MULTILINE)
    loader = re.findall(r"^\s+(/\S+) \(", listing, re.MULTILINE)
    return [(name, Path(path) if path else None) for name, path in found] + [
        (Path(path).name, Path(path)) for path in loader
    ]


def _is_elf(path: Path) -> bool:
    with path.open("rb") as file:
        return file.read(4) == b"\x7fELF"


def _run(argv: list[str]) -> str:
    done = subprocess.run(argv, capture_output=True, text=True, errors="replace", check=False)
    if done.returncode != 0:
        said = (done.stderr + done.stdout).strip().splitlines()[-3:]
        raise HarnessError(
            f"{Path(argv[0]).name} failed",
            where=argv[0],
            got="; ".join(said) or f"exit code {done.returncode}",
            next=JDK_INSTALL if argv[0].endswith("jlink") else None,
        )
    return done.stdout
