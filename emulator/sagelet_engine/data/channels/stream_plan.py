"""The protocol between a server and the feeder of a job's pipes. Standard library only."""

from typing import TypedDict

#: The file of a spool that lists the units of a channel. Each line is JSON, a list of parts.
UNITS = "units.jsonl"


class Part(TypedDict, total=False):
    """A part of a unit: a text, or a file of the spool with its size in bytes."""

    text: str
    file: str
    size: int


class StreamPlan(TypedDict):
    """The feeder's plan for one channel of one host. Paths are relative to the feeder's directory."""

    channel: str
    #: The directory of the FIFOs.
    directory: str
    spool: str
    #: This host's position among those that share the channel, and their number.
    host: int
    hosts: int
    #: ShuffleConfig.Seed. None for no shuffling.
    seed: int | None
    record_io: bool
