"""Facts: what one host is and how things stand on it, as the probe tells."""

from .hiding import hide_words
from .model import Answers, Facts, FileState, PciDevice, SettingState, UnitState, UserState, parse_facts

__all__ = [
    "Answers",
    "Facts",
    "FileState",
    "PciDevice",
    "SettingState",
    "UnitState",
    "UserState",
    "hide_words",
    "parse_facts",
]
