"""`python -m sparsetoken.cli`: the command line."""

from . import main

if __name__ == "__main__":
    main()
