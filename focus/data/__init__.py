"""Where puzzles come from: tables, sources, splits, generation, audit."""
