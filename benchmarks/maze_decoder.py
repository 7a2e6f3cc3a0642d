"""How long decoding 1,000 mazes in one batch takes on the CPU, against walking one by one.

FOCUS_DATA=DIR python -m benchmarks.maze_decoder [--json]
"""

import argparse
import json

import torch

from benchmarks.timing import median_seconds
from focus.data.sources import open_source
from focus.tasks import Maze


def walk(successor: list[int], start: int, goal: int) -> set[int]:
    visited, token = {goal}, goal
    while token != start and successor[token] not in visited:
        token = successor[token]
        visited.add(token)
    return visited


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--json", action="store_true")
    arguments = parser.parse_args()
    table = open_source(None).load(Maze(), "test")
    task = Maze(max_tokens=int((table.questions > 0).sum(1).max()))
    x, y = task.unpack(task.pack(table.questions, table.answers))
    z = task.solved_state(x, y)
    batched = median_seconds(lambda: task.decode(z, x), 5)
    checked = median_seconds(lambda: task.exact(z, x, y), 5)

    def one_by_one() -> None:
        direction = task.decoder_scores(z, x).argmax(-1, keepdim=True)
        successor = x.neighbour.gather(-1, direction)[..., 0].tolist()
        for row, start, goal in zip(successor, x.start.tolist(), x.goal.tolist(), strict=True):
            walk(row, start, goal)

    plain = median_seconds(one_by_one, 3)
    result = {
        "mazes": len(table),
        "threads": torch.get_num_threads(),
        "decode_seconds": round(batched, 4),
        "exact_seconds": round(checked, 4),
        "one_by_one_seconds": round(plain, 4),
    }
    if arguments.json:
        print(json.dumps(result))
        return
    print(
        f"decoding {len(table)} mazes in one batch: {batched:.3f} s on {result['threads']} threads"
    )
    print(f"  exactness alone {checked:.3f} s; walking one by one {plain:.3f} s")


if __name__ == "__main__":
    main()
