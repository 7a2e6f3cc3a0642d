"""Does the language model matter? The same solver with R taken away, mixed up, or unadapted.

The clamped answer already shows the puzzle to the updater, so that a solver may do without what
its language model says; these controls tell how much it does.
"""

from collections.abc import Iterator
from contextlib import contextmanager

import torch
from torch import Tensor

from focus.errors import UserError
from focus.model.base import Model
from focus.model.solver import solver_of

CONTROLS = ("none", "zeroed", "shuffled", "adapter-off")


def check_control(control: str) -> None:
    """Refuse a control that there is not."""
    if control not in CONTROLS:
        raise UserError(f"the controls are {', '.join(CONTROLS)}, not {control!r}")


@contextmanager
def controlled(model: Model, control: str) -> Iterator[None]:
    """Inside the block R is zeroed, or another puzzle's, or read without the adapter."""
    check_control(control)
    if control == "none":
        yield
        return
    backbone = solver_of(model, f"the control {control}: this model").backbone
    if backbone.language_model is None:
        raise UserError(f"the control {control} needs a solver with a language model")
    if control == "adapter-off":
        with model.adapted_model.disable_adapter():
            yield
        return
    project, before = backbone.project, None

    def changed(read: Tensor) -> Tensor:
        nonlocal before
        R = project(read)
        if control == "zeroed":
            return torch.zeros_like(R)
        # Of the puzzle before, so that a batch of one is shuffled too; the first of all has that
        # of the last of its batch, or none.
        first = before if before is not None else R[-1:] if len(R) > 1 else torch.zeros_like(R)
        before = R[-1:]
        return torch.cat([first, R[:-1]])

    object.__setattr__(backbone, "project", changed)
    try:
        yield
    finally:
        object.__delattr__(backbone, "project")


@torch.no_grad()
def adapter_norm(model: Model) -> float:
    """||dW|| / ||W|| over all adapted matrices together (Frobenius)."""
    moved, frozen = 0.0, 0.0
    for layer in model.adapted_model.modules():
        if not hasattr(layer, "get_delta_weight") or "default" not in layer.lora_A:
            continue
        moved += layer.get_delta_weight("default").float().square().sum().item()
        frozen += layer.get_base_layer().weight.float().square().sum().item()
    return (moved / frozen) ** 0.5
