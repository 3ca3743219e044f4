"""The platform at work: the loop, the use cases, healing, what people see of it."""

from .loop import Service, take_lock

__all__ = ["Service", "take_lock"]
