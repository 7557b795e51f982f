"""Text for the notebooks, made by a generator: sentences in the form of SST2's film reviews. Nothing is downloaded."""

import random

OPENINGS = ("a", "an often", "this is a", "not quite a", "at its best , a", "from start to finish a")
WORDS = ("warm", "funny", "dull", "clever", "slow", "charming", "tired", "moving", "clumsy", "bright")
KINDS = ("film", "comedy", "drama", "story", "thriller", "portrait", "documentary")
ENDINGS = ("that never lets go", "without a plot", "with a big heart", "for the whole family", "that goes nowhere")


def reviews(rows: int, seed: int = 0) -> str:
    """`rows` lines, the same for the same seed on every machine."""
    draw = random.Random(seed).choice
    return "".join(
        f"{draw(OPENINGS)} {draw(WORDS)} and {draw(WORDS)} {draw(KINDS)} {draw(ENDINGS)} .\n" for _ in range(rows)
    )
