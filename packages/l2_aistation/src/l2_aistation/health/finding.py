"""What a probe found."""

from __future__ import annotations

from dataclasses import dataclass

OK, WARN, BAD, ABSENT = "ok", "warn", "bad", "absent"


@dataclass(frozen=True, slots=True)
class Finding:
    """`state`: ok, warn (look at it), bad (nothing new should run here) or absent (no such device here).

    `label` is of the diagnosis' vocabulary; `entity` the device, port or path meant.
    """

    probe: str
    state: str
    label: str = ""
    entity: str = ""
    evidence: str = ""
