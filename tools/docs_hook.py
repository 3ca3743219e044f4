"""mkdocs hook: each package's README is its page of the documentation, from the one place it has."""

from __future__ import annotations

from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent


def on_files(files: Any, config: Any) -> Any:
    """Adds layers/NAME.md from packages/NAME/README.md."""
    from mkdocs.structure.files import File

    for package in sorted((ROOT / "packages").iterdir()):
        if (package / "README.md").exists():
            text = (package / "README.md").read_text("utf-8")
            files.append(File.generated(config, f"layers/{package.name}.md", content=text))
    return files
