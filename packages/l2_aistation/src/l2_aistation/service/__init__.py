"""The platform at work: the loop, the use cases, healing, what people see of it."""

from .loop import Service

__all__ = ["Service"]
