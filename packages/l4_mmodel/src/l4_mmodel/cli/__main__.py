"""`python -m l4_mmodel.cli`."""

from . import main

main()
