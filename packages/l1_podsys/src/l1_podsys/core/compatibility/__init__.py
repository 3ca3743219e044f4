"""Which versions fit each other: a table of known-good stacks, rules, and a solver that says why not."""

from .rules import RULES, Rule
from .solver import Explanation, check_stack, solve
from .stack import COMPONENTS, Stack, known_good

__all__ = ["COMPONENTS", "RULES", "Explanation", "Rule", "Stack", "check_stack", "known_good", "solve"]
