"""Power state from L0 as evidence about a silent node: an off machine is lost, not slow."""

from __future__ import annotations

from l2_aistation._kit.problems import Problem, Unavailable


class InfraOsPower:
    """A `PowerSource` over L0's records on this machine (`pip install 'l2_aistation[infra-os]'`)."""

    def __init__(self) -> None:
        try:
            from l0_infra_os.api import InfraOs
        except ImportError as error:
            raise Unavailable(
                "the power source infra-os is not installed", do="pip install 'l2_aistation[infra-os]'"
            ) from error
        self.infra = InfraOs()

    def power(self, node: str) -> str | None:
        """`on`, `off`, or None where L0 does not know the node or does not answer."""
        try:
            for view in self.infra.nodes():
                if view.id == node:
                    return view.power if view.power in ("on", "off") else None
        except Problem:
            return None
        return None
