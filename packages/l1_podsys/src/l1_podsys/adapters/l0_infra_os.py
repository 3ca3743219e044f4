"""Nodes of the layer below, asked in this process: `pip install 'l1-podsys[infra-os]'`."""

from __future__ import annotations

from typing import Any

from l1_podsys._kit.problems import Unavailable


class InfraOsNodes:
    """A `NodeSource` over l0_infra_os with its own settings."""

    def __init__(self) -> None:
        try:
            from l0_infra_os.api import InfraOs, Settings
        except ImportError as error:
            raise Unavailable(
                "l0-infra-os is not installed",
                do="pip install 'l1-podsys[infra-os]', or import a node-inventory file",
            ) from error
        self.infra = InfraOs(Settings.load())

    def node_inventory(self, tenant: str | None) -> dict[str, Any]:
        """The `ogai.node-inventory/v1` document of a tenant, or of the site."""
        document: dict[str, Any] = self.infra.inventory(tenant=tenant).as_json()
        return document
