"""`sagelet instances`: the instance types, AWS's prices for them, and what stands in for them here."""

from dataclasses import asdict

import click

from sagelet_api.cli.options import json_option
from sagelet_api.cli.output import Column, console, show_rows
from sagelet_api.cli.text import echo_json
from sagelet_engine.instances.catalogue import InstanceType, every, prices_as_of, prices_region
from sagelet_engine.instances.gpus import detect_gpus


def stand_in(found: InstanceType, gpus: int) -> str:
    """Returns what stands in for a type. `gpus`: the GPUs of this machine."""
    if not found.gpus:
        return "this machine's CPUs"
    if found.gpus <= gpus:
        return f"{found.gpus} of this machine's GPUs"
    return f"{found.gpus} CPU worker{'s' if found.gpus > 1 else ''}"


def _gpus(found: InstanceType) -> str | None:
    return f"{found.gpus} x {found.gpu_model} {found.gpu_memory_gib} GiB" if found.gpus else None


def _price(found: InstanceType) -> str | None:
    if found.usd_per_hour is None:
        return None
    earlier = f" ({found.priced_on:%Y-%m})" if found.priced_on not in (None, prices_as_of()) else ""
    return f"{found.usd_per_hour:.3f}{earlier}"


@click.command()
@click.argument("words", nargs=-1)
@click.option("--gpu", is_flag=True, help="Only types with GPUs.")
@json_option
def instances(words: tuple[str, ...], gpu: bool, as_json: bool) -> None:
    """List instance types, and what stands in for them.

    WORDS: only types whose names contain one of them, `sagelet instances g4dn p3`. A job gets this machine's GPUs where
    it has as many as the type, and one CPU worker for each GPU otherwise (`sagelet up --gpus`).
    """
    here = len(detect_gpus())
    found = [
        one
        for one in every()
        if (one.gpus or not gpu) and (not words or any(word.lower() in one.name for word in words))
    ]
    if as_json:
        rows = [{**asdict(one), "stand_in": stand_in(one, here)} for one in found]
        echo_json([{**row, "priced_on": row["priced_on"] and row["priced_on"].isoformat()} for row in rows])
        return
    columns: list[Column[InstanceType]] = [
        Column("TYPE", lambda one: one.name),
        Column("VCPUS", lambda one: str(one.vcpus), right=True, optional=1),
        Column("GIB", lambda one: f"{one.memory_gib:g}", right=True, optional=2),
        Column("GPUS", _gpus),
        Column("USD/H", _price, right=True),
        Column("HERE", lambda one: stand_in(one, here)),
    ]
    show_rows(columns, found)
    if console().is_terminal:
        click.echo(
            f"On-demand prices of training in {prices_region()}, {prices_as_of()}, where AWS's list has them.", err=True
        )
