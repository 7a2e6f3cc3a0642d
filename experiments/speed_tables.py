"""Tables of speed, from what `benchmarks/` has measured, for `experiments/results_page.py`."""

from experiments.stored import markdown, stored_results


def speed() -> str:
    """Throughput of the captured step."""
    rows = [["what", "updates/s", "puzzles/s", "over eager", "of the matrix rate"]]
    for what, timed in stored_results("bench-sudoku-quick").items():
        if not isinstance(timed, dict):
            continue
        captured, base = timed["captured"], timed["captured"]["updates_per_second"]["base"]
        ratio = f"{timed['captured_over_eager']:.1f}x" if "captured_over_eager" in timed else "–"
        share = timed.get("share_of_matrix_rate")
        rows.append(
            [
                what, f"{base:.1f}", f"{captured['puzzles_per_second']:,}", ratio,
                f"{100 * share:.0f} %" if share else "–",
            ]
        )  # fmt: skip
    return markdown(rows)


def language_model_speed() -> str:
    """Base updates with a language model of random weights inside the captured update."""
    head = ["recipe", "updates/s", "share of the language model", "of the matrix rate"]
    rows = [[*head, "GiB used", "GiB estimated"]]
    for timed in stored_results("bench-language-models")["results"]:
        captured = timed["captured"]
        rows.append(
            [
                f"`{timed['recipe']}`", f"{captured['updates_per_second']['base']:.1f}",
                f"{100 * captured['share']['language_model']:.0f} %",
                f"{100 * timed['share_of_matrix_rate']:.0f} %",
                f"{timed['peak_gib']:.1f}", f"{captured['estimated_gib']:.1f}",
            ]
        )  # fmt: skip
    return markdown(rows)


def stacks() -> str:
    """Runs of batch 16 that share their updates."""
    rows = [["runs together", "updates/s of each, base", "updates/s in all", "gain", "K_p = 128"]]
    timed = {
        row.get("together", 1): row.get("captured", row)["updates_per_second"]
        for row in stored_results("bench-stack")["results"]
    }
    for together, rates in sorted(timed.items()):
        base, longest = (rates[key] for key in ("base", "K_p 128, h 8"))
        rows.append(
            [
                str(together), f"{base:.1f}", f"{together * base:.0f}",
                *(f"{together * rate / timed[1][key]:.1f}x"
                  for key, rate in (("base", base), ("K_p 128, h 8", longest))),
            ]
        )  # fmt: skip
    return markdown(rows)


def selection() -> str:
    """What choosing a state costs over the steps from which it is chosen."""
    ratios = stored_results("bench-select")["selection_over_its_steps"]
    cells = [f"{ratio:.2f}x" for ratio in ratios.values()]
    return markdown([["stage", *ratios], ["over its steps", *cells]])


def speed_on_a_cpu() -> str:
    """Seconds to solve after loading, on two cores."""
    rows = [["checkpoint", "K", "seconds for one puzzle", "at a time", "puzzles/s"]]
    for timed in stored_results("bench-cpu")["results"]:
        untrained = ", untrained" if timed.get("untrained") else ""
        rows.append(
            [
                f"`{timed['checkpoint']}`{untrained}", str(timed["steps"]),
                f"{timed['seconds_one']:.1f}", str(timed["batch"]),
                f"{timed['puzzles_per_second']}",
            ]
        )  # fmt: skip
    return markdown(rows)
