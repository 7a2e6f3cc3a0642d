"""The Hugging Face hub, or its cache alone where the hub does not answer.

Its own library asks for every file six times, for half a minute, before it says so.
"""

from collections.abc import Iterator
from contextlib import contextmanager

HUB_OWNER = "focus-solver"  # whose models the released checkpoints are: HUB_OWNER/NAME
_PATIENCE = 5.0  # seconds to connect


@contextmanager
def reachable_hub() -> Iterator[None]:
    """Find out whether the hub answers; where it does not, only its cache is used in the block."""
    from huggingface_hub import constants

    was_offline = constants.HF_HUB_OFFLINE
    constants.HF_HUB_OFFLINE = was_offline or not _answers()
    try:
        yield
    finally:
        constants.HF_HUB_OFFLINE = was_offline


def _answers() -> bool:
    from huggingface_hub import constants, get_session

    try:
        get_session().head(constants.ENDPOINT, timeout=_PATIENCE)
    except Exception:  # whatever the HTTP library of the day raises
        return False
    return True
