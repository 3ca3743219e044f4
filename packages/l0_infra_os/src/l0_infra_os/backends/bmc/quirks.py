"""Where makers of BMCs read the Redfish standard differently: data, looked up by manufacturer."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Quirks:
    """How one maker's BMC differs from the standard."""

    duration_reads_back: bool = True
    """Whether BootSourceOverrideEnabled says what was set (some always say Continuous)."""
    send_mode: bool = False
    """Whether BootSourceOverrideMode must be in the PATCH (read-only at others, who answer 400)."""
    disk_target: str = "Hdd"


#: the start of Manufacturer, in lower case -> its quirks.  Sources: DMTF/Redfishtool#106 (Supermicro
#: drops an override without a mode), sushy-tools' system template (always Continuous).
BY_MANUFACTURER: dict[str, Quirks] = {
    "sushy emulator": Quirks(duration_reads_back=False),
    "supermicro": Quirks(send_mode=True),
}


def quirks_of(manufacturer: str | None) -> Quirks:
    """The quirks of a maker; the standard's behaviour for unknown ones."""
    name = (manufacturer or "").lower()
    for start, quirks in BY_MANUFACTURER.items():
        if name.startswith(start):
            return quirks
    return Quirks()
