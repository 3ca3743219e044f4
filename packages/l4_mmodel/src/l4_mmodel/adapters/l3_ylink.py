"""Models from YLink: a GGUF file, de-quantised once to safetensors."""

from __future__ import annotations

from pathlib import Path

import l3_ylink.api as ylink


class YlinkModels:
    """A `ModelSource`."""

    def fetch(self, source: Path, into: Path, *, name: str | None) -> Path:
        """Writes safetensors and a manifest whose `derived_from` is the GGUF's digest."""
        ylink.import_gguf(source, into, name=name)
        return into / "model-manifest.json"
