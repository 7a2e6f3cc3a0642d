"""The text a language model reads, with one token per cell whatever the tokenizer.

Tokenizers merge digits and runs of `#`, so the prompt is assembled from token ids: literal text
is tokenized, each cell becomes the single token of its symbol.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
import torch
from jaxtyping import Int
from torch import Tensor, nn

from focus.errors import UserError


@dataclass(frozen=True)
class Cell:
    """The place in a prompt where the symbol of a cell stands."""

    number: int


@dataclass(frozen=True)
class Prompt:
    """What a task wants the model to read: text and cells in order.

    The readout of a cell is the *last* place where it appears, so that a causal model has seen
    the whole puzzle when the grid is printed twice.
    """

    parts: tuple[str | Cell, ...]
    symbols: tuple[str, ...]  # text of each grid code

    def text(self, codes: np.ndarray) -> str:
        """The prompt with the cells' codes filled in, as a reader sees it."""
        parts = (self.symbols[codes[p.number]] if isinstance(p, Cell) else p for p in self.parts)
        return "".join(parts)


class PromptTokens(nn.Module):
    """A prompt for one tokenizer: a template of ids with slots for the cells.

    It has no weights: it is a part of the model that reads it, so as to be on the same device.
    """

    template: Int[Tensor, " length"]  # ids; 0 where a cell stands
    slot: Int[Tensor, " length"]  # the cell that stands there, -1 for text
    readout: Int[Tensor, " cells"]  # position at which each cell is read
    symbol_ids: Int[Tensor, " symbols"]

    def __init__(self, **tables: Sequence[int]):
        super().__init__()
        for name, numbers in tables.items():
            self.register_buffer(name, torch.tensor(numbers), persistent=False)

    def ids(self, grid: Int[Tensor, "batch cells"]) -> Int[Tensor, "batch length"]:
        """Token ids of a batch of puzzles."""
        cells = self.symbol_ids[grid[:, self.slot.clamp(min=0)]]
        return torch.where(self.slot >= 0, cells, self.template)


def tokenize_prompt(
    prompt: Prompt, encode: Callable[[str], Sequence[int]], begin: Sequence[int] = (),
    decode: Callable[[Sequence[int]], str] | None = None,
) -> PromptTokens:  # fmt: skip
    """Build the prompt for a tokenizer given as `encode` (text to ids, no special tokens).

    `begin` holds ids to put first, such as a beginning-of-text token. With `decode` each symbol's
    token is also read back: one that the vocabulary lacks is some other text.
    """
    symbol_ids = []
    for symbol in prompt.symbols:
        ids = list(encode(symbol))
        if len(ids) != 1:
            raise UserError(
                f"this tokenizer needs {len(ids)} tokens for the cell symbol {symbol!r}; "
                "choose a backbone whose tokenizer has it as one token"
            )
        if decode is not None and decode(ids).strip() != symbol.strip():
            raise UserError(
                f"this tokenizer does not know the cell symbol {symbol!r} (it reads "
                f"{decode(ids)!r}); choose a backbone whose tokenizer has it as one token"
            )
        symbol_ids.append(ids[0])
    if len(set(symbol_ids)) != len(symbol_ids):
        raise UserError(
            f"this tokenizer gives the same token to different cell symbols {prompt.symbols}; "
            "choose a backbone whose tokenizer tells them apart"
        )
    template, slot, readout = list(begin), [-1] * len(begin), {}
    for part in prompt.parts:
        if isinstance(part, Cell):
            readout[part.number] = len(template)
            template.append(0)
            slot.append(part.number)
        else:
            ids = list(encode(part))
            template += ids
            slot += [-1] * len(ids)
    places = [readout[cell] for cell in range(len(readout))]
    return PromptTokens(template=template, slot=slot, readout=places, symbol_ids=symbol_ids)
