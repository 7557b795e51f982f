"""Requests to the control endpoints of a test's server."""

import json
from http.client import HTTPResponse
from pathlib import Path
from typing import Any
from urllib.request import Request

from botocore.auth import SigV4Auth
from botocore.awsrequest import AWSRequest
from botocore.credentials import Credentials

from sagelet.connection import opener
from sagelet_api.protocol.calls import DEFAULT_REGION
from sagelet_engine.base.keys import ca_file, read_key_pair

#: Seconds that the server may take to answer.
TIMEOUT_S = 60


def ask(endpoint: str, data: Path, method: str, path: str, body: Any = None) -> None:
    """Sends a request to `/_sagelet/PATH`, signed with the data directory's key pair. Raises HTTPError, URLError."""
    url = f"{endpoint}/_sagelet/{path}"
    content = None if body is None else json.dumps(body).encode()
    request = AWSRequest(method, url, {"Content-Type": "application/json"}, content or b"")
    keys, authority = read_key_pair(data), ca_file(data)
    if keys is not None:
        SigV4Auth(Credentials(keys.access_key, keys.secret), "sagelet", DEFAULT_REGION).add_auth(request)
    sent = Request(url, content, dict(request.headers.items()), method=method)
    answer: HTTPResponse = opener(str(authority) if authority.is_file() else None).open(sent, timeout=TIMEOUT_S)
    answer.close()
