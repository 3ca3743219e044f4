"""`python -m l2_aistation` is `aistation`."""

from .cli import main

main()
