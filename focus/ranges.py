"""What a setting may be: one line says which one is out of its range, and what the range is.

A value that is no number is in no range.
"""

from collections.abc import Mapping

from focus.errors import UserError


def check_from(low: float, values: Mapping[str, float]) -> None:
    """Refuse a setting below `low`."""
    for name, value in values.items():
        if not value >= low:
            raise UserError(f"{name} must be at least {low}, not {value}")


def check_above_zero(values: Mapping[str, float]) -> None:
    """Refuse a setting that is zero or less."""
    for name, value in values.items():
        if not value > 0:
            raise UserError(f"{name} must lie above 0, not {value}")


def check_shares(values: Mapping[str, float]) -> None:
    """Refuse a setting that is no share of a whole."""
    for name, value in values.items():
        if not 0 <= value <= 1:
            raise UserError(f"{name} is a share from 0 to 1, not {value}")
