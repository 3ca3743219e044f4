"""Programs that are sent to a host over SSH and run there with nothing but Python's library.

Each is one file and is never imported here: `source()` gives its text.
"""

from __future__ import annotations

import functools
import json
from importlib.resources import files
from typing import Any


@functools.cache
def source(name: str) -> str:
    """The text of `facts.py` or `measure.py`."""
    return files(__name__).joinpath(f"{name}.py").read_text("utf-8")


def program(name: str, request: dict[str, Any]) -> str:
    """The text for `python3 -`: the probe and one call with its request."""
    return f"{source(name)}\nmain({json.dumps(json.dumps(request))})\n"
