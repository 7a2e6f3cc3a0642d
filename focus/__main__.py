"""`python -m focus` and `torchrun -m focus`: the command line."""

from focus.cli import entry

if __name__ == "__main__":
    entry()
