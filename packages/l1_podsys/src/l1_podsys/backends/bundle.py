"""Offline bundles: a folder with the .deb files of some packages and all that they need.

`apt` itself resolves the dependencies, in a scratch root without any installed package, so that the
bundle serves any host of that release.  `SHA256SUMS` covers every file and the index, and is checked
in full each time before a bundle is used.
"""

from __future__ import annotations

import hashlib
import os
import re
import shutil
import subprocess
import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path

from pydantic import Field

from l1_podsys._kit.documents import Part, digest_of_file, read_json, validated
from l1_podsys._kit.files import atomic_write, locked
from l1_podsys._kit.problems import BadInput, Failed, Unavailable
from l1_podsys.core.planning.resources import Deb

from .folders import dump

INDEX, SUMS = "bundle.json", "SHA256SUMS"
PACKAGE_NAME = re.compile(r"^[a-z0-9][a-z0-9+.-]+$")
BASE = ("usr-is-merged",)
"""What every host of a supported release is: without it apt would take `usrmerge`, and all of Perl."""
SUITE_NAME = re.compile(r"^[a-z][a-z0-9-]*$")


class BundleIndex(Part):
    """What a bundle holds.  `closures` names for each wanted package it and its dependencies."""

    schema_: str = Field(default="podsys.bundle/v1", alias="schema")
    suite: str
    arch: str
    debs: list[Deb]
    closures: dict[str, list[str]]
    base: list[str] = Field(default_factory=list, description="packages that hosts are taken to have")

    model_config = Part.model_config | {"populate_by_name": True}

    def closure(self, package: str) -> list[Deb]:
        """A package and what it needs."""
        return [deb for deb in self.debs if deb.package in self.closures[package]]


def open_bundle(folder: Path) -> BundleIndex:
    """The index of a bundle after every checksum was checked; `BadInput` names the first bad file."""
    if not (folder / SUMS).is_file():
        raise BadInput(
            "is no bundle: there is no SHA256SUMS", field=str(folder), do="make one: podsys bundle"
        )
    for line in (folder / SUMS).read_text("utf-8").splitlines():
        digest, _, name = line.partition("  ")
        path = folder / name
        if "/" in name or not path.is_file() or digest_of_file(path) != f"sha256:{digest}":
            raise BadInput(
                f"{name} is not what SHA256SUMS says",
                field=str(folder),
                why="the bundle is damaged or was changed",
                do="make it again: podsys bundle",
            )
    index = validated(BundleIndex, read_json(folder / INDEX), where=str(folder / INDEX))
    listed = {line.partition("  ")[2] for line in (folder / SUMS).read_text("utf-8").splitlines()}
    missing = {deb.file for deb in index.debs} | {INDEX}
    if missing - listed:
        raise BadInput(f"SHA256SUMS does not cover {min(missing - listed)}", field=str(folder))
    return index


def make_bundle(
    packages: Sequence[str], folder: Path, *, suite: str, say: Callable[[str], None] = lambda _: None
) -> BundleIndex:
    """Makes a bundle, or checks and returns the one that is there with the same packages."""
    for name in packages:
        if not PACKAGE_NAME.match(name):
            raise BadInput(f"{name!r} is not a Debian package's name", field="package")
    if not SUITE_NAME.match(suite):
        raise BadInput(f"{suite!r} is not a release's name", field="suite", do="use bookworm, for example")
    with locked(folder.with_name(folder.name + ".lock")):
        if (folder / SUMS).exists():
            index = open_bundle(folder)
            same = index.suite == suite and index.base == list(BASE)
            if same and set(packages) <= set(index.closures):
                return index
        if shutil.which("apt-get") is None:
            raise Unavailable("there is no apt-get", why="bundles are made by apt", do="use a Debian machine")
        with tempfile.TemporaryDirectory(dir=folder.parent, prefix=".bundle-") as scratch:
            index = _fetch(packages, Path(scratch), suite, say)
            shutil.rmtree(folder, ignore_errors=True)
            (Path(scratch) / "bundle").rename(folder)
    return index


def _fetch(packages: Sequence[str], scratch: Path, suite: str, say: Callable[[str], None]) -> BundleIndex:
    apt = _Apt(scratch, suite)
    say(f"reading the package lists of {suite}")
    apt.call("update")
    say(f"fetching {', '.join(packages)} and what they need")
    closures = {}
    for package in packages:
        closures[package] = sorted(apt.names(package))
    apt.call("install", "--download-only", *BASE, *packages)
    bundle = scratch / "bundle"
    bundle.mkdir()
    debs = []
    for path in sorted((scratch / "cache" / "archives").glob("*.deb")):
        fields = subprocess.run(
            ["dpkg-deb", "-f", str(path), "Package", "Version"], capture_output=True, text=True, check=True
        ).stdout
        values = dict(line.split(": ", 1) for line in fields.splitlines())
        name = re.sub(r"[^A-Za-z0-9._+~-]", "_", path.name.replace("%3a", "_"))
        shutil.copyfile(path, bundle / name)
        digest = hashlib.sha256(path.read_bytes()).hexdigest()
        debs.append(Deb(package=values["Package"], version=values["Version"], file=name, sha256=digest))
    index = BundleIndex(suite=suite, arch=apt.architecture(), debs=debs, closures=closures, base=list(BASE))
    atomic_write(bundle / INDEX, dump(index.model_dump(by_alias=True)))
    names = [*(deb.file for deb in debs), INDEX]
    sums = "".join(f"{digest_of_file(bundle / name)[7:]}  {name}\n" for name in names)
    atomic_write(bundle / SUMS, sums)
    total = sum(path.stat().st_size for path in bundle.iterdir())
    say(f"{len(debs)} packages, {total / 1e6:.1f} MB")
    return index


class _Apt:
    """apt with lists, cache and state of its own; the machine's sources and keys, for another suite."""

    def __init__(self, scratch: Path, suite: str) -> None:
        self.scratch = scratch
        for name in ("lists/partial", "cache/archives/partial", "state", "parts"):
            (scratch / name).mkdir(parents=True)
        (scratch / "state" / "status").touch()
        (scratch / "sources.list").write_text(_sources(suite))

    def _argv(self, *words: str) -> list[str]:
        places = {
            "Dir::Etc::sourcelist": self.scratch / "sources.list",
            "Dir::Etc::sourceparts": self.scratch / "parts",
            "Dir::State": self.scratch / "state",
            "Dir::State::lists": self.scratch / "lists",
            "Dir::State::status": self.scratch / "state" / "status",
            "Dir::Cache": self.scratch / "cache",
            "Dir::Cache::archives": self.scratch / "cache" / "archives",
        }
        options = [word for name, path in places.items() for word in ("-o", f"{name}={path}")]
        options += ["-o", "APT::Sandbox::User=root", "-o", "APT::Install-Recommends=false"]
        options += ["-o", "Acquire::Languages=none", "-o", "Debug::NoLocking=true"]
        return ["apt-get", "-y", "-q", *options, *words]

    def call(self, *words: str) -> str:
        done = subprocess.run(
            self._argv(*words),
            capture_output=True,
            text=True,
            check=False,
            env={**os.environ, "LC_ALL": "C.UTF-8", "DEBIAN_FRONTEND": "noninteractive"},
        )
        if done.returncode:
            lines = [line for line in done.stderr.splitlines() if line.strip()]
            raise Failed(
                f"apt-get {words[0]} failed",
                why=" | ".join(lines[-3:]),
                do="check the network and the package's name",
            )
        return done.stdout

    def names(self, package: str) -> set[str]:
        """All packages that an installation of this one would bring to an empty system."""
        lines = self.call("install", "--simulate", *BASE, package).splitlines()
        return {line.split()[1] for line in lines if line.startswith("Inst ")}

    @staticmethod
    def architecture() -> str:
        command = ["dpkg", "--print-architecture"]
        return subprocess.run(command, capture_output=True, text=True, check=True).stdout.strip()


def _sources(suite: str) -> str:
    """Package sources of a release, from the machine's own mirror and keyring."""
    keyring = Path("/usr/share/keyrings/debian-archive-keyring.gpg")
    signed = f" [signed-by={keyring}]" if keyring.exists() else ""
    mirror = _mirror()
    return "".join(f"deb{signed} {mirror} {name} main\n" for name in (suite, f"{suite}-updates"))


def _mirror() -> str:
    """The first Debian mirror that this machine uses."""
    files = [Path("/etc/apt/sources.list"), *sorted(Path("/etc/apt/sources.list.d").glob("*"))]
    for path in files:
        if not path.is_file():
            continue
        for line in path.read_text("utf-8", "replace").splitlines():
            found = re.search(r"^(?:deb |URIs:).*?(https?://\S+/debian/?)(?:\s|$)", line)
            if found:
                return found.group(1)
    raise Unavailable("this machine names no Debian mirror", do="add one to /etc/apt/sources.list")
