"""Parses sizes and ages as people write them."""

import re
from typing import Any

import click

_SECONDS = {"s": 1, "m": 60, "h": 3600, "d": 86_400}


class Size(click.types.StringParamType):
    """Bytes, or a number with K, M, G or T (powers of 1024; `GB` and `GiB` are `G`)."""

    name = "SIZE"

    def convert(self, value: object, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        if isinstance(value, int):
            return value
        text = re.fullmatch(r"(\d+(?:\.\d+)?)\s*([KMGT]?)(?:i?B)?", str(value).strip(), re.IGNORECASE)
        if text is None:
            self.fail(f"{value!r} is not a size; write 0, 500M or 5G", param, ctx)
        return int(float(text[1]) * 1024 ** " KMGT".index(text[2].upper() or " "))


class Age(click.types.StringParamType):
    """Seconds, or a number with s, m, h or d; `forever` is None."""

    name = "AGE"

    def convert(self, value: object, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        if value == "forever" or isinstance(value, int):
            return None if value == "forever" else value
        text = re.fullmatch(r"(\d+)\s*([smhd]?)", str(value).strip(), re.IGNORECASE)
        if text is None:
            self.fail(f"{value!r} is not an age; write 90s, 12h, 7d or forever", param, ctx)
        return int(text[1]) * _SECONDS[text[2].lower() or "s"]
