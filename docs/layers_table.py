"""Makes CONTRIBUTING's table of the layers of the tests, of tests/layers.toml. `make docs` runs it."""

from pathlib import Path

from support.layers import Layer, layers

PAGE = Path(__file__).parents[1] / "CONTRIBUTING.md"
BEGIN, END = "<!-- Made by `make docs` from tests/layers.toml. -->\n", "<!-- End of the table. -->\n"


def table() -> str:
    rows = "".join(f"| `{layer.directory}` | {layer.proves} | {_chosen(layer)} |\n" for layer in layers().values())
    return f"| tests/ | proves | `make test` runs |\n| --- | --- | --- |\n{rows}"


def _chosen(layer: Layer) -> str:
    if layer.chosen is None:
        return "all"
    files = dict.fromkeys(choice.file for choice in layer.chosen)
    named = ", ".join(f"`{file}`" + (" (a part)" if layer.is_part(file) else "") for file in files)
    return f"{named or 'nothing'}: {layer.because}"


def page() -> str:
    """Returns CONTRIBUTING.md with the table of today."""
    text = PAGE.read_text(encoding="utf-8")
    before, _, rest = text.partition(BEGIN)
    return f"{before}{BEGIN}\n{table()}\n{END}{rest.partition(END)[2]}"


if __name__ == "__main__":
    PAGE.write_text(page(), encoding="utf-8")
