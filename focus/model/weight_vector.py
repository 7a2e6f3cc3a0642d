"""The trained weights of a model side by side in one vector, their gradients in another.

What ends an update (norm, AdamW, average) treats all weights alike. For the hundreds of small
matrices of an adapter that is hundreds of pieces of work, most of them too small for a GPU; for a
vector it is one. The weights stay the model's parameters: each becomes a view of the vector.
"""

from collections.abc import Mapping, Sequence

import torch
from torch import Tensor, nn

_ALIGNED = 64  # every weight begins at a multiple of it, as fast kernels like it


class WeightVector:
    """Weights as views of `values`, and what they have for `grad` as views of `gradients`.

    Between the weights there are zeros, which no update changes.
    """

    def __init__(self, named: Mapping[str, nn.Parameter]):
        """The weights by name, in the order in which they will lie."""
        self.named = named
        self.places: dict[str, slice] = {}
        end = 0
        for name, weight in named.items():
            self.places[name] = slice(end, end + weight.numel())
            end += weight.numel() + -weight.numel() % _ALIGNED
        self._parameters = [(weight, self.places[name]) for name, weight in named.items()]
        values = torch.zeros(end, device=next(iter(named.values())).device)
        for name, own in self.split(values).items():
            own.copy_(named[name].detach())
        self.move_to(values, torch.zeros_like(values))

    def move_to(self, values: Tensor, gradients: Tensor) -> None:
        """Use other memory from now on, which holds the same numbers."""
        self.values, self.gradients = values, gradients
        for parameter, place in self._parameters:
            parameter.data = values[place].view_as(parameter)
            parameter.grad = gradients[place].view_as(parameter)

    def stretch(self, names: Sequence[str]) -> slice:
        """Where weights lie that follow each other."""
        return slice(self.places[names[0]].start, self.places[names[-1]].stop)

    def parameter(self, stretch: slice) -> nn.Parameter:
        """A stretch as one parameter, for an optimizer."""
        parameter = nn.Parameter(self.values[stretch])
        parameter.grad = self.gradients[stretch]
        self._parameters.append((parameter, stretch))
        return parameter

    def split(self, tensor: Tensor, start: int = 0) -> dict[str, Tensor]:
        """Views by name of a tensor (..., numbers) that is laid out as `values` from `start` on."""
        end = start + tensor.shape[-1]
        return {
            name: tensor[..., place.start - start : place.stop - start].view(
                *tensor.shape[:-1], *self.named[name].shape
            )
            for name, place in self.places.items() if start <= place.start and place.stop <= end
        }  # fmt: skip
