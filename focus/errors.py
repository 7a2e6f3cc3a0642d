"""The one exception for what the user can mend."""


class UserError(Exception):
    """The user's input is wrong. The message is one line: what, where, and what would be right.

    The command line prints it to standard error and exits with code 2, without a traceback.
    """


class GivenUpError(UserError):
    """A search ended before it knew; its object may be right or wrong."""
