"""Builds Debian images with mmdebstrap, once for each recipe; the result is kept in the cache."""

from __future__ import annotations

import os
import shlex
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path

from l0_infra_os._kit.files import locked
from l0_infra_os._kit.problems import Failed, Unavailable
from l0_infra_os.ports import Image, ImageStore

from .cache import cache_folder
from .recipe import DISK, ROOT, Recipe

Say = Callable[[str], None]

DOWNLOAD_MB = {ROOT.name: 55, DISK.name: 115}
"""Measured sizes of the packages, told before they are fetched."""


def say_on_stderr(text: str) -> None:
    """The default of every `say`: one line for people."""
    print(text, file=sys.stderr, flush=True)


def build_debian(store: ImageStore, name: str = "debian", *, say: Say = say_on_stderr) -> Image:
    """The Debian root file system in the store under `name`; built when the cache has none."""
    return store.add(name, build_debian_root(say=say), format="tar.zst")


def build_debian_disk(store: ImageStore, name: str = "debian-disk", *, say: Say = say_on_stderr) -> Image:
    """The whole-disk Debian image (UEFI, kernel, root) in the store under `name`."""
    from .disk import build_disk

    return store.add(name, build_disk(say=say), format="raw.zst")


def build_debian_root(recipe: Recipe = ROOT, *, say: Say = say_on_stderr) -> Path:
    """The `tar.zst` of the recipe's root file system, from the cache or built now.

    Says first what it fetches.  `Unavailable` names the program that is missing, `Failed` has the
    last lines of the build.  Two builders at once: one builds, the other waits for it.
    """
    archive = cache_folder() / f"{recipe.name}-{recipe.key}.tar.zst"
    if archive.exists():
        return archive
    require("mmdebstrap", "zstd")
    with locked(archive.with_suffix(".lock")):
        if not archive.exists():
            size = DOWNLOAD_MB.get(recipe.name, 65)
            say(
                f"building the {recipe.name} image (once): fetches about {size} MB of Debian {recipe.suite}"
                f" packages from {mirror() or 'the Debian mirror'}, about a minute"
            )
            _bootstrap(recipe, archive, say)
            say(f"image built: {archive.name}, {archive.stat().st_size / 1e6:.0f} MB")
    return archive


def require(*programs: str) -> None:
    """`Unavailable` with the line to copy when a program is not on this machine."""
    os.environ["PATH"] = f"{os.environ.get('PATH', '')}{os.pathsep}/usr/sbin{os.pathsep}/sbin"
    missing = [program for program in programs if shutil.which(program) is None]
    if missing:
        packages = " ".join(PACKAGE_OF.get(program, program) for program in missing)
        raise Unavailable(
            f"not on this machine: {', '.join(missing)}",
            do=f"apt-get install -y --no-install-recommends {packages}",
        )


PACKAGE_OF = {
    "systemd-nspawn": "systemd-container",
    "ip": "iproute2",
    "tc": "iproute2",
    "bridge": "iproute2",
    "nft": "nftables",
    "dnsmasq": "dnsmasq-base",
    "qemu-system-x86_64": "qemu-system-x86",
    "qemu-img": "qemu-utils",
    "sfdisk": "fdisk",
    "mcopy": "mtools",
    "mkfs.vfat": "dosfstools",
    "mke2fs": "e2fsprogs",
    "objcopy": "binutils",
    "busybox": "busybox-static",
}


STEPS = tuple(
    f"I: {step}" for step in ("running apt-get", "downloading", "extracting", "installing", "creating")
)
"""The lines of mmdebstrap that tell how far it is."""


def mirror() -> str:
    """`$OGAI_DEBIAN_MIRROR`, or empty for mmdebstrap's own choice (with updates and security)."""
    return os.environ.get("OGAI_DEBIAN_MIRROR", "")


def _bootstrap(recipe: Recipe, archive: Path, say: Say) -> None:
    archive.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix="ogai-image-") as work:
        skeleton = Path(work) / "skeleton"
        _write_skeleton(recipe, skeleton)
        partial = Path(work) / "root.tar.zst"
        _run(_command(recipe, skeleton, partial), say)
        arrived = archive.with_name(f".{archive.name}.partial")
        shutil.move(partial, arrived)
        os.replace(arrived, archive)


PINS = "etc/apt/preferences.d/ogai"
MERGED_USR = "/usr/share/mmdebstrap/hooks/merged-usr"


def _write_skeleton(recipe: Recipe, skeleton: Path) -> None:
    for name, text in recipe.files.items():
        path = skeleton / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, "utf-8")
        path.chmod(0o755 if text.startswith("#!") else 0o644)
    if recipe.unwanted:
        pins = [f"Package: {name}\nPin: release *\nPin-Priority: -1\n" for name in recipe.unwanted]
        (skeleton / PINS).parent.mkdir(parents=True)
        (skeleton / PINS).write_text("\n".join(pins), "utf-8")
    (skeleton / "srv" / "storage").mkdir(parents=True)


def _command(recipe: Recipe, skeleton: Path, target: Path) -> list[str]:
    hooks = [
        f'cp -rT --preserve=mode {shlex.quote(str(skeleton))} "$1"',
        'rm -f "$1"/etc/ssh/ssh_host_* "$1"/etc/hostname "$1"/etc/resolv.conf',
        # Agents run programs of the shared environment that may lie below /root: let users of the
        # node pass through it (not list it).
        'chmod 0711 "$1"/root',
        f'chroot "$1" systemctl --quiet mask {" ".join(recipe.masked)}',
        f'chroot "$1" systemctl --quiet enable {" ".join(recipe.enabled)}',
    ]
    pins = shlex.quote(str(skeleton / PINS))
    command = ["mmdebstrap", "--variant=minbase", f"--include={','.join(recipe.packages)}"]
    command += [f'--setup-hook=install -D -m 644 {pins} "$1"/{PINS}', f"--hook-dir={MERGED_USR}"]
    command += [f"--customize-hook={hook}" for hook in hooks]
    command += [f"--dpkgopt=path-exclude={path}" for path in recipe.left_out]
    command += [f"--dpkgopt=path-include={path}" for path in recipe.kept]
    command += ['--aptopt=Acquire::Languages "none"', recipe.suite, str(target)]
    return command + ([mirror()] if mirror() else [])


def _run(command: list[str], say: Say) -> None:
    lines: list[str] = []
    process = subprocess.Popen(
        command,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
        errors="replace",
        env={**os.environ, "LC_ALL": "C.UTF-8"},
    )
    with process:
        for line in process.stderr or ():
            lines.append(line.rstrip())
            if line.startswith(STEPS):
                say(f"  {line[3:].rstrip()}")
    if process.returncode:
        raise Failed(
            "the Debian image could not be built",
            why="\n".join(lines[-8:]),
            do="check that the Debian mirror is reachable (OGAI_DEBIAN_MIRROR names another)",
        )
