"""`ylink data`: run a recipe, look at what it did, ask what would change."""

from __future__ import annotations

from .._kit.command_line import new_app

app = new_app("Clean and tokenise text: run a recipe, explain each decision, try other thresholds.")


@app.callback()
def data() -> None:
    """Clean and tokenise text: run a recipe, explain each decision, try other thresholds."""
