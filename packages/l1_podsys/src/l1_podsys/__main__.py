"""`python -m l1_podsys`: the command line."""

from l1_podsys.cli import main

main()
