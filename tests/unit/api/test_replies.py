"""Errors that echo what a client sent, in each protocol."""

from types import SimpleNamespace
from typing import Any

import pytest

from sagelet_api.protocol.aws_errors import ValidationException
from sagelet_api.protocol.calls import Protocol
from sagelet_api.protocol.replies import error_reply


@pytest.mark.parametrize("protocol", Protocol)
def test_half_of_a_surrogate_pair_does_not_break_an_error(protocol: Protocol) -> None:
    call: Any = SimpleNamespace(protocol=protocol, request_id="r", path="/\ud800", operation="X")
    reply = error_reply(call, ValidationException("odd: \ud800"))
    assert reply.status == 400
    assert b"odd: " in reply.body
