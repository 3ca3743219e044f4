"""Engineering know-how: named kernel presets, and advice from PCI Express facts."""

from .advice import advise
from .presets import PRESETS, preset_settings

__all__ = ["PRESETS", "advise", "preset_settings"]
