"""REST interface and pages."""

from .app import create_app

__all__ = ["create_app"]
