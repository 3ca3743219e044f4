"""A fabric that only keeps book: for tests of the controller where no switch is at hand."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from l0_infra_os._kit.problems import Unavailable
from l0_infra_os.ports import MANAGEMENT, Management, Segment


class MemoryFabric:
    """Ports are known once they were applied or registered; `broken` makes it stop answering."""

    def __init__(self, management: Management | None = None, macs: Sequence[str] = ()) -> None:
        self.management = management or Management("127.0.0.1", "127.0.0.0/8")
        self.broken = False
        self.deaf: set[str] = set()
        """Ports that keep their segment whatever is commanded: a switch that lies."""
        self.changes: list[tuple[str, str | None]] = []
        self._segments: dict[str, str | None] = dict.fromkeys(macs)

    def apply(self, desired: Mapping[str, Segment | None]) -> None:
        """See `ports.Fabric.apply`."""
        self._answer()
        for mac, segment in desired.items():
            name = segment.name if segment else None
            if mac not in self.deaf and self._segments.get(mac, "") != name:
                self._segments[mac] = name
                if name != MANAGEMENT.name:
                    self.changes.append((mac, name))

    def observe(self, macs: Sequence[str]) -> dict[str, str | None]:
        """See `ports.Fabric.observe`."""
        self._answer()
        return {mac: self._segments[mac] for mac in macs if mac in self._segments}

    def _answer(self) -> None:
        if self.broken:
            raise Unavailable("the fabric manager does not answer")
