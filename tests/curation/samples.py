"""Mini-batches for tests."""

import torch

from focus.curation.records import Batch
from focus.random import stratified


def minibatch(x, y, keys) -> Batch:
    """A batch whose puzzles were drawn for this update; where they come from does not matter."""
    none, example = torch.zeros_like(keys), torch.arange(len(keys))
    return Batch(x, y, keys, keys, none, none, stratified(0, example, len(keys)))
