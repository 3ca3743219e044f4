"""What can be seen of a node's health while it works: probes, each in a process of its own with a time limit.

Acceptance checks (is this machine as fast as it should be) are the cluster layer's and come with its report.
"""

from __future__ import annotations

from .finding import Finding
from .run import look, names

__all__ = ["Finding", "look", "names"]
