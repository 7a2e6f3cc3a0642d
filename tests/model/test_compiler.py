"""Where the compiler fails, a function runs as it is written."""

import functools
import warnings

import pytest
import torch

from focus.model.compiler import compiled


def squared(x: torch.Tensor) -> torch.Tensor:
    return (x * x).sum()


@pytest.fixture
def broken(monkeypatch):
    """A compiler that fails; the calls it gets."""
    calls = []

    def backend(graph, inputs):
        calls.append(graph)
        raise RuntimeError("PassManager::run failed")

    monkeypatch.setattr(torch, "compile", functools.partial(torch.compile, backend=backend))
    return calls


def test_a_function_that_cannot_be_compiled_runs_as_it_is(broken):
    function = compiled(squared)
    x = torch.arange(3.0, requires_grad=True)
    with pytest.warns(UserWarning, match=r"squared runs uncompiled, .*PassManager::run failed"):
        value = function(x)
    value.backward()
    assert value == 5
    assert x.grad is not None
    assert x.grad.tolist() == [0, 2, 4]


def test_the_compiler_is_asked_once_and_one_warning_tells(broken):
    function = compiled(squared)
    with pytest.warns(UserWarning, match="uncompiled"):
        function(torch.ones(2))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert function(torch.ones(5)) == 5
    assert len(broken) == 1


def test_a_fault_of_the_function_is_not_the_compilers(monkeypatch):
    monkeypatch.setattr(torch, "compile", functools.partial(torch.compile, backend="eager"))

    def wrong(x: torch.Tensor) -> torch.Tensor:
        raise ValueError("no such cell")

    with pytest.raises(ValueError, match="no such cell"):
        compiled(wrong)(torch.ones(2))


def test_what_compiles_is_compiled(monkeypatch):
    seen = []

    def backend(graph, inputs):
        seen.append(graph)
        return graph.forward

    monkeypatch.setattr(torch, "compile", functools.partial(torch.compile, backend=backend))
    assert compiled(squared)(torch.ones(4)) == 4
    assert len(seen) == 1
