"""`python -m l4_mmodel`: the command line."""

from l4_mmodel.cli import main

main()
