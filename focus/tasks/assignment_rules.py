"""The rules of an assignment task as tables, made once for each task.

Everything follows from `Assignment.groups` and `Assignment.conflicts`. Tables of tensors are made
once for each device too: a captured graph may not copy from the host.
"""

from functools import lru_cache
from typing import TYPE_CHECKING, Literal

import numpy as np
import torch
from torch import Tensor

from focus.tasks.assignment_search import Exclusions, exclusions

if TYPE_CHECKING:
    from focus.tasks.assignment import Assignment

TableName = Literal["members", "relations", "categories", "conflicts", "further"]


@lru_cache
def group_numbers(task: "Assignment") -> np.ndarray:
    """The group of each cell in each relation, (relations, cells)."""
    return np.array(list(task.groups().values()), np.int64)


@lru_cache
def group_count(task: "Assignment") -> int:
    """Groups of all relations."""
    return int((group_numbers(task).max(1) + 1).sum())


@lru_cache
def _group_conflicts(task: "Assignment") -> np.ndarray:
    """One class in two cells of a group, (cells, classes, cells, classes)."""
    numbers = group_numbers(task)
    shared = (numbers[:, :, None] == numbers[:, None, :]) & (numbers[:, :, None] >= 0)
    related = shared.any(0) & ~np.eye(numbers.shape[1], dtype=bool)
    return related[:, None, :, None] & np.eye(task.classes, dtype=bool)[None, :, None, :]


@lru_cache
def further_conflicts(task: "Assignment") -> np.ndarray | None:
    """What the task's further rules exclude beside groups, both ways round; None without such."""
    table = task.conflicts()
    if table is None:
        return None
    itself = np.eye(task.cells, dtype=bool)[:, None, :, None]
    return (table | table.transpose(2, 3, 0, 1)) & ~_group_conflicts(task) & ~itself


@lru_cache
def all_conflicts(task: "Assignment") -> np.ndarray:
    """All pairs that exclude each other, (cells, classes, cells, classes)."""
    further = further_conflicts(task)
    return _group_conflicts(task) if further is None else _group_conflicts(task) | further


@lru_cache
def search_table(task: "Assignment") -> Exclusions:
    """The same for the search."""
    return exclusions(all_conflicts(task))


@lru_cache
def beyond_position(task: "Assignment") -> np.ndarray:
    """Group numbers of the relations that are neither the row nor the column of a cell."""
    cell = np.arange(task.cells)
    lines = cell // task.columns, cell % task.columns
    further = [n for n in group_numbers(task) if not any((n == line).all() for line in lines)]
    return np.array([n - min(0, n.min()) for n in further], np.int64).reshape(-1, task.cells)


@lru_cache
def table(task: "Assignment", name: TableName, device: torch.device) -> Tensor:
    """One of the tables on a device.

    members (relations, cells, groups): 1 where a cell belongs to a group;
    relations (1, relations, cells, cells): which cells share a group;
    categories (cells, kinds): the groups that the position does not tell;
    conflicts, further (pairs, pairs): 1 where (cell, class) pairs exclude each other, by all rules
    or by those beyond groups alone.
    """
    if name in ("members", "relations"):
        numbers = torch.from_numpy(group_numbers(task))
        members = (numbers[..., None] == torch.arange(int(numbers.max()) + 1)).float()
        shown = members if name == "members" else (members @ members.mT > 0)[None]
    elif name == "categories":
        shown = torch.from_numpy(beyond_position(task).T.copy())
    else:
        pairs = task.cells * task.classes
        chosen = all_conflicts(task) if name == "conflicts" else further_conflicts(task)
        shown = torch.zeros(pairs, pairs)
        if chosen is not None:
            shown = torch.from_numpy(chosen.reshape(pairs, pairs)).float()
    return shown.to(device)
