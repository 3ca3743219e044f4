"""Recipes that come with the package, by name."""

from __future__ import annotations

from pathlib import Path

FOLDER = Path(__file__).parent


def shipped() -> dict[str, Path]:
    """The recipes that come with the package."""
    return {path.stem: path for path in sorted(FOLDER.glob("*.yaml"))}


def find_recipe(wanted: Path) -> Path:
    """The file itself where there is one, else the shipped recipe of that name."""
    if wanted.exists() or wanted.suffix:
        return wanted
    return shipped().get(str(wanted), wanted)
