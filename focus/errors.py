"""The one exception for what the user can mend."""

from collections.abc import Iterable
from difflib import get_close_matches


class UserError(Exception):
    """The user's input is wrong. The message is one line: what, where, and what would be right.

    The command line prints it to standard error and exits with code 2, without a traceback.
    """


def counted(number: int, noun: str) -> str:
    """A number and its noun, in the singular or the plural."""
    return f"{number:,} {noun}{'' if number == 1 else 's'}"


def did_you_mean(word: str, names: Iterable[str]) -> str:
    """The name that a word was probably meant to be, as the end of a message; or nothing."""
    near = get_close_matches(word, list(names), 1, 0.75)
    return f"; did you mean {near[0]}?" if near and near[0] != word else ""


def first_line(error: BaseException) -> str:
    """What an error says first; its kind where it says nothing."""
    return (str(error).strip().splitlines() or [type(error).__name__])[0]


class GivenUpError(UserError):
    """A search ended before it knew; its object may be right or wrong."""
