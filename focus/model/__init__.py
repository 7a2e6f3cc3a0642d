"""The solver: a backbone encodes the puzzle once, an updater revises the answer."""
