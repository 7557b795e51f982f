"""HF_ENDPOINT for programs outside of jobs."""

from sagelet_api.cli.control_client import ask
from sagelet_api.servers.server import Server
from sagelet_engine.hub.access import OWNER, PATH, reader


def hub_endpoint(server: Server) -> str:
    """Returns the HF_ENDPOINT. If signatures are checked, it identifies the owner. Raises NoServer."""
    checked = ask(server, "GET", "health").get("auth")
    keys = server.keys if checked else None
    return f"{server.endpoint}{PATH}" + ("" if keys is None else f"/{reader(keys, OWNER)}")
