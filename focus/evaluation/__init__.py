"""Judge a solver: exact rates with intervals, diagnostics, per-instance predictions."""
