"""Profiles that come with the package, as YAML data."""

from __future__ import annotations

from importlib.resources import files

from l1_podsys._kit.problems import NotFound


def shipped_names() -> list[str]:
    """Names of the shipped profiles."""
    folder = files(__name__)
    return sorted(
        entry.name.removesuffix(".yaml") for entry in folder.iterdir() if entry.name.endswith(".yaml")
    )


def shipped(name: str) -> str:
    """The YAML text of a shipped profile."""
    if name not in shipped_names():
        raise NotFound(f"no shipped profile {name!r}")
    return files(__name__).joinpath(f"{name}.yaml").read_text("utf-8")
