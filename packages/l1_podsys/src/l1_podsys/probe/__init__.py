"""Programs that are sent to a host over SSH and run there with nothing but Python's library.

`program()` joins the files of one program into one text; nothing is installed on the host.
"""

from __future__ import annotations

import functools
import json
import re
from importlib.resources import files
from typing import Any

PARTS = {"facts": ("hardware", "facts"), "measure": ("measure",)}
JOINED = re.compile(
    r"^from (?:l1_podsys\.probe\.\w+ import (?:\([^)]*\)|.*)|__future__ import .*)\n", re.MULTILINE
)


@functools.cache
def source(name: str) -> str:
    """The text of a program: its parts one after the other, without the imports between them."""
    folder = files(__name__)
    parts = [folder.joinpath(f"{part}.py").read_text("utf-8") for part in PARTS[name]]
    return "from __future__ import annotations\n" + "\n".join(JOINED.sub("", part) for part in parts)


def program(name: str, request: dict[str, Any]) -> str:
    """The text for `python3 -`: the program and one call with its request."""
    return f"{source(name)}\nmain({json.dumps(json.dumps(request))})\n"
