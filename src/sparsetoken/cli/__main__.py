"""`python -m sparsetoken.cli`: the command line."""

from . import main

main()
