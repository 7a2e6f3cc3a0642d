"""The paper's figures, quoted: exact solve rates and zero-shot accuracies in percent."""

# Table 1, by backbone: Direct LoRA SFT, One-step State-SFT, Recurrent final-only, FOCUS.
_SOURCE_METHODS = ("direct", "one-step", "recurrent", "focus")
_SUDOKU = {
    "qwen3-1.7b": (0.5, 0.5, 7.2, 64.4),
    "qwen3-4b": (0.5, 0.3, 16.2, 66.0),
    "qwen3-8b": (0.6, 0.7, 14.8, 64.7),
    "llama-3.2-3b": (0.0, 0.4, 12.3, 61.9),
    "llama-3.1-8b": (0.3, 0.8, 8.0, 65.8),
}
_MAZE = {
    "qwen3-1.7b": (0.0, 0.0, 86.0, 91.1),
    "qwen3-4b": (0.1, 0.0, 86.9, 91.5),
    "qwen3-8b": (0.0, 0.0, 87.2, 88.3),
    "llama-3.2-3b": (0.0, 0.0, 86.8, 90.1),
    "llama-3.1-8b": (0.0, 0.0, 79.8, 87.7),
}
BACKBONES = tuple(_SUDOKU)
STUDIED = "qwen3-1.7b"  # the backbone of curation study and ablations

# Tables 3 to 5: the curation study and the ablations, with Qwen3-1.7B.
_STUDY = {
    "sudoku": {
        "random": 57.8, "energy-hard": 61.3, "fixed-mix": 60.8, "no-penalty": 61.3,
        "random-penalty": 61.1,
    },
    "maze": {
        "random": 89.7, "energy-hard": 89.9, "fixed-mix": 90.5, "no-penalty": 85.8,
        "random-penalty": 87.1,
    },
}  # fmt: skip

# Table 2: models that are only prompted.
PROMPT_ONLY = {"DeepSeek-R1": (0.0, 0.0), "Claude 3.7 8K": (0.0, 0.0), "o3-mini (high)": (0.0, 0.0)}

STEPS = {"sudoku": 128, "maze": 16}  # K of the reported figures

# Transfer, by backbone and source task ("" = the baseline), in the order of the benchmarks.
TRANSFER_BENCHMARKS = ("math", "math-hard", "cruxeval-o", "cruxeval-i")
TRANSFER = {
    "qwen3-1.7b": {
        "": (86.54, 72.36, 50.75, 24.00),
        "sudoku": (86.38, 72.96, 55.38, 26.75),
        "maze": (86.36, 71.68, 50.63, 24.12),
    },
    "qwen3-4b": {
        "": (91.58, 83.46, 79.63, 45.25),
        "sudoku": (90.92, 82.40, 79.50, 44.25),
        "maze": (92.12, 83.91, 79.75, 45.50),
    },
    "qwen3-8b": {
        "": (91.14, 82.48, 81.63, 57.75),
        "sudoku": (91.48, 82.40, 82.38, 55.38),
        "maze": (91.52, 85.20, 82.13, 54.88),
    },
    "llama-3.2-3b": {
        "": (47.40, 21.90, 15.25, 0.00),
        "sudoku": (45.28, 21.15, 15.88, 0.38),
        "maze": (47.40, 22.43, 16.88, 0.25),
    },
    "llama-3.1-8b": {
        "": (49.16, 22.66, 27.00, 21.75),
        "sudoku": (49.96, 22.81, 26.75, 21.50),
        "maze": (49.86, 23.49, 26.75, 22.00),
    },
}
AIME = {  # AIME25, AIME26
    "qwen3-1.7b": {"": (23.33, 16.67), "sudoku": (16.67, 23.33), "maze": (26.67, 13.33)},
    "qwen3-4b": {"": (20.00, 30.00), "sudoku": (26.67, 36.67), "maze": (30.00, 33.33)},
    "qwen3-8b": {"": (26.67, 30.00), "sudoku": (20.00, 30.00), "maze": (33.33, 33.33)},
}


def source_rate(task: str, backbone: str, method: str) -> float | None:
    """The paper's exact rate on a source task; None where it has none."""
    rates = (_SUDOKU if task == "sudoku" else _MAZE).get(backbone)
    if rates is None:
        return None
    if method == "base":
        return 0.0  # "All unadapted base models score 0.0 % on both tasks."
    if method in _SOURCE_METHODS:
        return rates[_SOURCE_METHODS.index(method)]
    return _STUDY[task].get(method) if backbone == STUDIED else None
