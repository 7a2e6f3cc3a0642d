"""Functions compiled for one batch size, as long as the compiler can.

Generated kernels are the compiler's own work, and it fails on some of them: Triton 3.6 refuses one
of the maze loss of a single step. No run should end for that. The function goes on as it is
written, slower, and one warning says so.
"""

import functools
import logging
import warnings
from collections.abc import Callable
from typing import Any

import torch

_LENGTH = 200  # of what the compiler says; it may print a program


def compiled(function: Callable[..., Any]) -> Callable[..., Any]:
    """`function`, compiled when it is first called; as it is where the compiler fails."""
    # Imported here: it takes a second, which most commands can do without.
    from torch._dynamo.exc import BackendCompilerFailed

    # It tells of choices of its own, once for each kernel.
    warnings.filterwarnings("ignore", message=r"\s*Online softmax is disabled", module="torch")
    logging.getLogger("torch._inductor.select_algorithm").setLevel(logging.ERROR)
    fast = torch.compile(function, dynamic=False)
    failed = False

    @functools.wraps(function)
    def call(*arguments: Any) -> Any:
        nonlocal failed
        if not failed:
            try:
                return fast(*arguments)
            except BackendCompilerFailed as error:
                failed = True
                name = getattr(function, "__qualname__", repr(function))
                reason = " ".join(str(error.inner_exception).split())[:_LENGTH]
                warnings.warn(f"{name} runs uncompiled, which is slower: {reason}", stacklevel=2)
        return function(*arguments)

    return call
