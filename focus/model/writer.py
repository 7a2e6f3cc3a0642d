"""Base and Direct LoRA SFT: the language model writes the answer down, once.

The prompt is the one that the solver's encoder reads, followed by a cue; the target is one token
per cell. Greedy decoding and a strict parser turn a completion into an answer or into nothing.
"""

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor
from torch.nn import functional

from focus.errors import UserError
from focus.model.backbone import CausalModel, activation_bytes
from focus.model.base import Model, Prediction, SolverConfig
from focus.model.generate import batch_size, complete
from focus.tasks.base import Codes, Task
from focus.tasks.prompt import Prompt, tokenize_prompt
from focus.tasks.records import Problem, Target

_CUE = "\nAnswer:\n"


class Writer(Model):
    """A causal language model with LoRA that completes the prompt with the answer."""

    def __init__(self, task: Task, config: SolverConfig):
        super().__init__(task, config)
        if config.backbone.name == "none" or config.backbone.frozen:
            raise UserError("writing an answer needs a language model with an adapter")
        self.causal_model = CausalModel(config.backbone)
        self.codec = self.causal_model.codec
        question, target = task.prompt(), task.text_target()
        question = Prompt((*question.parts, _CUE), question.symbols)
        self._question = tokenize_prompt(question, self.codec.encode, self.codec.begin)
        self._target = tokenize_prompt(target, self.codec.encode)

    def loss(self, x: Problem, y: Target) -> Float[Tensor, " batch"]:
        """Cross-entropy of the completion alone, mean over its tokens, end of text included."""
        prompt = self._question.ids(x.grid)
        target = self._target.ids(self.task.cell_codes(self.task.reference(y), x).long())
        target = functional.pad(target, (0, 1), value=self.codec.end)
        whole = torch.cat([prompt, target], 1)
        logits = self.causal_model.logits(whole, target.shape[1] + 1)[:, :-1]
        losses = functional.cross_entropy(
            logits.float().flatten(0, 1), target.flatten(), reduction="none"
        )
        return losses.unflatten(0, target.shape).mean(1)

    def write(self, questions: Codes) -> list[str]:
        """Greedy completions of puzzles given as codes."""
        codes = torch.as_tensor(questions, device=self.device).long()
        prompts = self._question.ids(codes).tolist()
        written = complete(
            self.language_model, prompts, self.lengths[1], [self.codec.end], str(self.device)
        )
        return [self.codec.decode(one.ids) for one in written]

    @property
    def language_model(self) -> Any:
        return self.causal_model.model

    def predict(
        self, x: Problem, questions: Codes, steps: Sequence[int], early_stop: bool = False
    ) -> Iterator[Prediction]:
        """One prediction: greedy completions through the strict parser.

        A completion that it refuses leaves the question as it was and is not `parsed`.
        """
        answers, parsed = questions.copy(), np.zeros(len(questions), bool)
        for row, text in enumerate(self.write(questions)):
            answer = self.task.parse_text_target(questions[row], text)
            if answer is not None:
                answers[row], parsed[row] = answer, True
        yield Prediction(0, answers, parsed=parsed)

    def compile_parts(self) -> None:
        self.causal_model.compile_layers()

    def prepare_capture(self) -> bool:
        return self.causal_model.prepare_capture()

    def eval_batch_size(self) -> int:
        """On a CPU what is written comes token by token, and each reads all weights."""
        if self.device.type == "cpu":
            return 16
        return batch_size(self.language_model, *self.lengths, "cuda")

    def encoder_bytes(self) -> int:
        vocabulary = (
            10 * sum(self.lengths) * self.language_model.config.vocab_size
        )  # in two precisions
        return activation_bytes(self.language_model, sum(self.lengths)) + vocabulary

    @property
    def lengths(self) -> tuple[int, int]:
        """Tokens of the prompt, and of the completion with its end."""
        return len(self._question.template), len(self._target.template) + 1
