"""Use cases: import, plan, apply, verify, diagnose, report, bundle."""

from .podsys import Podsys

__all__ = ["Podsys"]
