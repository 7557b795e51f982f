"""HF_ENDPOINT for programs outside of jobs."""

from sagelet_api.cli.control_client import ask
from sagelet_api.cli.options import Server
from sagelet_engine.base.keys import read_key_pair
from sagelet_engine.hub.access import OWNER, PATH, reader


def hub_endpoint(server: Server) -> str:
    """Returns the HF_ENDPOINT. If signatures are checked, it identifies the owner. Raises ServerUnreachable."""
    checked = ask("GET", server.control_url("health"), data=server.data).get("auth")
    keys = read_key_pair(server.data) if checked else None
    return f"{server.endpoint}{PATH}" + ("" if keys is None else f"/{reader(keys, OWNER)}")
