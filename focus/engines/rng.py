"""A counter-keyed random stream for compiled code (SplitMix64, Steele et al. 2014).

Every unit of generated data owns the stream of (seed, unit number), so that what is generated
does not depend on how many workers share the units, nor on the order in which they run.
"""

import numpy as np
from numba import njit

_GOLDEN = np.uint64(0x9E3779B97F4A7C15)
_MIX1 = np.uint64(0xBF58476D1CE4E5B9)
_MIX2 = np.uint64(0x94D049BB133111EB)
_S30, _S27, _S31, _S11 = np.uint64(30), np.uint64(27), np.uint64(31), np.uint64(11)


@njit(nogil=True, cache=True)
def next_word(state):
    """Advance the one-word state and return 64 random bits."""
    state[0] += _GOLDEN
    word = state[0]
    word = (word ^ (word >> _S30)) * _MIX1
    word = (word ^ (word >> _S27)) * _MIX2
    return word ^ (word >> _S31)


@njit(nogil=True, cache=True)
def stream(seed, unit):
    """The random state of one unit of work."""
    state = np.empty(1, np.uint64)
    state[0] = np.uint64(seed)
    state[0] = next_word(state) ^ (np.uint64(unit) * _MIX1)
    state[0] = next_word(state)
    return state


@njit(nogil=True, cache=True)
def uniform(state):
    """A float in [0, 1) with 53 random bits."""
    return np.float64(next_word(state) >> _S11) * (1.0 / 9007199254740992.0)


@njit(nogil=True, cache=True)
def below(state, bound):
    """An integer in [0, bound); the bias of a float draw is below 1e-12 for our bounds."""
    return np.int64(uniform(state) * bound)


@njit(nogil=True, cache=True)
def shuffle(state, values):
    """Shuffle a one-dimensional array in place (Fisher-Yates)."""
    for i in range(len(values) - 1, 0, -1):
        j = below(state, i + 1)
        values[i], values[j] = values[j], values[i]
