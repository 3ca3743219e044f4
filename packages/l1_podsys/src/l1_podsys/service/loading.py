"""Reads what an inventory and a profile name: the profile's file, wheels, secrets, the bundle."""

from __future__ import annotations

import zipfile
from pathlib import Path

from l1_podsys._kit.documents import digest_of_file
from l1_podsys._kit.problems import BadInput
from l1_podsys.backends.bundle import open_bundle
from l1_podsys.core.inventory import Inventory, Ssh, parse
from l1_podsys.core.inventory.reading import parse_as
from l1_podsys.core.planning import Profile, Sources
from l1_podsys.core.planning.resources import Deb
from l1_podsys.profiles import shipped, shipped_names


def read_text(path: Path) -> str:
    """A text file; `BadInput` says which one cannot be read."""
    try:
        return path.read_text("utf-8")
    except FileNotFoundError as error:
        raise BadInput("no such file", field=str(path), do="check the path") from error
    except (OSError, UnicodeDecodeError) as error:
        raise BadInput(f"is not a readable text file: {error}", field=str(path)) from error


def load_inventory(path: Path) -> Inventory:
    """The inventory of a file, linted; relative paths of keys start at the file's folder."""
    inventory = parse(read_text(path), where=str(path))

    def absolute(ssh: Ssh) -> Ssh:
        key = path.resolve().parent / Path(ssh.key).expanduser() if ssh.key else None
        return ssh.model_copy(update={"key": str(key) if key else None})

    hosts = [
        host.model_copy(update={"ssh": absolute(host.ssh)}) if host.ssh else host for host in inventory.hosts
    ]
    return inventory.model_copy(update={"ssh": absolute(inventory.ssh), "hosts": hosts})


def load_profile(name: str | None, base: Path) -> tuple[Profile, Path, Path | None]:
    """A profile by path (from `base`) or by a shipped name; also its folder, and its file."""
    if name is None:
        return Profile(name="none"), base, None
    path = (base / Path(name).expanduser()).resolve()
    if path.is_file():
        return parse_as(Profile, read_text(path), where=str(path)), path.parent, path
    if name in shipped_names():
        return parse_as(Profile, shipped(name), where=name), base, None
    raise BadInput(
        f"there is no profile {name!r}",
        field="profile",
        do=f"give a file, or one of: {', '.join(shipped_names())}",
    )


def load_sources(profile: Profile, base: Path, key: bytes) -> tuple[Sources, dict[str, Path]]:
    """What the profile names, read and checked; and where its wheels and packages lie, by upload name."""
    files: dict[str, Path] = {}
    wheels, secrets = {}, {}
    for index, service in enumerate(profile.python_services):
        at = f"python_services.{index}"
        path = (base / Path(service.wheel).expanduser()).resolve()
        _must_be_wheel(path, f"{at}.wheel")
        digest = digest_of_file(path)[7:]
        wheels[service.wheel] = (path.name, digest)
        files[f"{digest}.whl"] = path
        for name, source in service.secrets.items():
            secrets[service.name, name] = _secret(
                (base / Path(source).expanduser()).resolve(), f"{at}.secrets.{name}"
            )
    closures, bundle = _closures(profile, base, files)
    return Sources(key, secrets, wheels, closures, bundle), files


def _closures(
    profile: Profile, base: Path, files: dict[str, Path]
) -> tuple[dict[str, list[Deb]], str | None]:
    if profile.bundle is None:
        return {}, None
    folder = (base / Path(profile.bundle).expanduser()).resolve()
    index = open_bundle(folder)
    files.update({deb.file: folder / deb.file for deb in index.debs})
    return {package: index.closure(package) for package in index.closures}, str(folder)


def _must_be_wheel(path: Path, field: str) -> None:
    if not path.is_file():
        raise BadInput(f"there is no wheel {path}", field=field, do="build it first, or correct the path")
    try:
        with zipfile.ZipFile(path) as archive:
            names = archive.namelist()
    except zipfile.BadZipFile as error:
        raise BadInput(f"{path.name} is not a wheel: {error}", field=field) from error
    if not any(name.endswith(".dist-info/RECORD") for name in names):
        raise BadInput(f"{path.name} is not a wheel: it has no RECORD", field=field)


def _secret(path: Path, field: str) -> str:
    value = read_text_field(path, field).removesuffix("\n")
    if "\n" in value or "\x00" in value:
        raise BadInput("has more than one line", field=field, do="a secret is one line of text")
    return value


def read_text_field(path: Path, field: str) -> str:
    """A text file named by a field: errors name the field, never the content."""
    try:
        return path.read_text("utf-8")
    except (OSError, UnicodeDecodeError) as error:
        reason = "no such file" if isinstance(error, FileNotFoundError) else "cannot be read as text"
        raise BadInput(f"{path}: {reason}", field=field, do="check the path and its rights") from error
