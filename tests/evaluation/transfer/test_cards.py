"""Which items get a card, and what a card says of them."""

from focus.evaluation.transfer import BENCHMARKS, cards
from focus.evaluation.transfer.items import Item
from focus.evaluation.transfer.store import Scored

MATH, HARD = BENCHMARKS["math"], BENCHMARKS["math-hard"]
ITEMS = [Item(f"{n}", {"problem": f"What is <{n}>?"}, f"{n}", f"{n}") for n in range(4)]
BEGINNING = "We add the two numbers and look at what comes of it. "


def verdicts(**right: str) -> cards.Verdicts:
    """Which of the four items each variant got right, as in "1001"."""
    return {
        name.replace("_", "-"): {
            item.id: Scored(
                item.id, item.reference, item.id, sign == "1", "" if sign == "1" else "differs",
                f"{BEGINNING}{name} says <b>{sign}</b>", 9, True,
            )
            for item, sign in zip(ITEMS, signs, strict=True)
        }
        for name, signs in right.items()
    }  # fmt: skip


def ids(chosen: list[cards.Card]) -> list[str]:
    return [card.item.id for card in chosen]


def test_what_one_of_two_variants_got_right_comes_first():
    pair = verdicts(base="1010", solver="1001")
    assert ids(cards.changed(MATH, ITEMS, pair, 6)) == ["3", "2", "0"]
    assert ids(cards.changed(MATH, ITEMS, pair, 1)) == ["3"]


def test_items_that_separate_adapters_from_the_others():
    known = verdicts(base="1001", null_1="1011", one="0101", two="0001")
    chosen = cards.separating([(MATH, ITEMS, known)], {"one", "two"}, 10)
    assert ids(chosen) == ["0", "1", "2"]  # by 1, 1/2 and 1/2; all agree on the last
    assert list(chosen[0].answers) == ["base", "null-1", "one", "two"]
    both = [(MATH, ITEMS, known), (HARD, ITEMS[:1], known)]
    assert ids(cards.separating(both, {"one", "two"}, 10)) == ["0", "1", "2"]  # none of them twice
    assert cards.separating([(MATH, ITEMS, verdicts(base="1001"))], set(), 10) == []


def test_a_card_tells_where_a_text_goes_its_own_way():
    chosen = cards.changed(MATH, ITEMS, verdicts(base="1000", solver="0100"), 1)
    text, page = cards.as_markdown("Two", chosen), cards.as_html("Two & more", chosen)
    assert text.count(BEGINNING) == 1
    assert f"As base for {len(BEGINNING)} characters, then:" in text
    assert "solver says <b>1</b>" in text
    assert f'<span class="same">{BEGINNING}</span>solver says &lt;b&gt;1&lt;/b&gt;' in page
    assert "Two &amp; more" in page
    assert "<b>" not in page


def test_the_same_text_is_told_once():
    pair = verdicts(base="1000", solver="1000")
    pair["solver"] = pair["base"]
    text = cards.as_markdown("Two", cards.changed(MATH, ITEMS, pair, 1))
    assert text.count(BEGINNING) == 1
    assert "The same text as base." in text


def test_texts_that_begin_alike_by_chance_are_told_whole():
    assert cards.in_common("The answer is 4", "The answer is 5") == 0
    assert cards.in_common(BEGINNING + "four", BEGINNING + "five") == len(BEGINNING)
    assert cards.in_common(BEGINNING, BEGINNING) == len(BEGINNING)
