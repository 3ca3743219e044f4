"""The inventory: which hosts a cluster has, how to reach them, where they stand."""

from .importing import from_node_inventory
from .lint import lint
from .model import Host, Inventory, Location, Nic, Ssh
from .reading import parse, to_yaml

__all__ = ["Host", "Inventory", "Location", "Nic", "Ssh", "from_node_inventory", "lint", "parse", "to_yaml"]
