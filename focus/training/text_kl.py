"""What an adapter does to ordinary text, as a term of the loss (ours).

Before training the language model answers ordinary questions by itself. While the puzzle is
learned, the distribution of every token of these answers is held near what it was then, by the
Kullback-Leibler divergence from the model as it was to the model with its adapter.
"""

from importlib.resources import files
from typing import cast

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from focus.errors import UserError
from focus.model.backbone import LanguageModel
from focus.model.base import Model, evaluating
from focus.model.generate import complete, end_ids, prompt_ids
from focus.training.config import RunConfig, TextKLConfig

_AT_ONCE = 8  # texts that are read together outside of training


class TextKL:
    """The answers of the model without its adapter, and how far the adapter has moved them."""

    ids: Int[Tensor, "texts length"]
    written: Bool[Tensor, "texts length"]  # where the next token is the model's own
    before: Float[Tensor, "texts length hidden"]  # what the model read without its adapter

    def __init__(self, backbone: LanguageModel, config: TextKLConfig, device: str):
        """The adapter of `backbone` has learned nothing yet."""
        self.backbone, self.config = backbone, config
        codec, model = backbone.codec, backbone.language_model
        lines = files("focus.training").joinpath("ordinary_prompts.txt").read_text("utf-8")
        prompts = [prompt_ids(codec, line, False) for line in lines.splitlines()]
        ends, longest = end_ids(model, codec), max(len(prompt) for prompt in prompts)
        if longest >= config.length:
            raise UserError(f"text-kl.length must be above {longest}, the tokens of the questions")
        self.answer_length = config.length - longest
        with evaluating(model):
            answers = complete(model, prompts, self.answer_length, ends, device)
            self.ids = torch.full((len(prompts), config.length), codec.end)
            self.written = torch.zeros_like(self.ids, dtype=torch.bool)
            for row, (prompt, answer) in enumerate(zip(prompts, answers, strict=True)):
                text = [*prompt, *answer.ids]
                self.ids[row, : len(text)] = torch.tensor(text)
                self.written[row, len(prompt) - 1 : len(text) - 1 + answer.finished] = True
            self.ids, self.written = self.ids.to(device), self.written.to(device)
            with torch.no_grad():
                parts = [backbone.hidden(some) for some in self.ids.split(_AT_ONCE)]
            self.before = torch.cat(parts)

    def loss(self, update: Tensor) -> Float[Tensor, ""]:
        """Weighted divergence of the texts whose turn it is."""
        turn = torch.arange(self.config.texts, device=self.ids.device)
        return self.config.weight * self._divergence((update * len(turn) + turn) % len(self.ids))

    @torch.no_grad()
    def measure(self) -> float:
        """The divergence of all texts, in nats per token."""
        force = torch.compiler.set_stance("force_eager")  # other batches than training's
        with evaluating(self.backbone.language_model), force:
            rows = torch.arange(len(self.ids), device=self.ids.device).split(_AT_ONCE)
            parts = [float(self._divergence(some)) * int(self.written[some].sum()) for some in rows]
        return sum(parts) / max(1, int(self.written.sum()))

    def _divergence(self, rows: Int[Tensor, " some"]) -> Float[Tensor, ""]:
        """Mean over the tokens that the model wrote."""
        counted = self.written[rows]
        vocabulary = self.backbone.vocabulary
        now = vocabulary(self.backbone.hidden(self.ids[rows])).float().log_softmax(-1)
        with torch.no_grad():
            before = vocabulary(self.before[rows]).float().log_softmax(-1)
        divergence = (before.exp() * (before - now)).sum(-1)
        return (divergence * counted).sum() / counted.sum().clamp(min=1)


def make_text_kl(model: Model, config: RunConfig, device: str) -> TextKL | None:
    """The term of a run that has one; the model is as it was before any training."""
    if not config.text_kl.weight:
        return None
    return TextKL(cast(LanguageModel, model.ahead_encoder()), config.text_kl, device)
