"""Compiled search on plain arrays: Sudoku solving, maze search, equivalence, generation.

Nothing here knows of torch, files or models; `focus.tasks` and `focus.data` build on it.
"""
