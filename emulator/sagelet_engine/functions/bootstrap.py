"""Runs the handler of a Lambda function once. It is copied beside the event. Standard library only, for Python 3.9.

The directory that it is in has `event.json` and `invocation.json`. The answer goes to `../output/answer.json`:
`payload` (JSON text), or `error` and `message`, or `timed_out`. Names and texts of errors are those of AWS's runtime
interface client for Python, which is public (aws-lambda-python-runtime-interface-client, bootstrap.py).
"""

import importlib
import json
import logging
import os
import sys
import threading
import time
import traceback
from decimal import Decimal
from typing import Any

HERE = os.path.dirname(os.path.abspath(__file__))
ANSWER = os.path.join(os.path.dirname(HERE), "output", "answer.json")
#: Seconds that Lambda gives the import of a function's module before the time of the function begins.
INIT_SECONDS = 10
#: Bytes of an answer, at most (Lambda quotas).
LARGEST = 6 * 1024**2
TIMED_OUT = 124


class Context:
    """The second argument of a handler (developer guide, "AWS Lambda context object in Python")."""

    def __init__(self, given: "dict[str, Any]") -> None:
        self.aws_request_id = given["request_id"]
        self.function_name = given["name"]
        self.function_version = given["version"]
        self.invoked_function_arn = given["arn"]
        self.memory_limit_in_mb = str(given["memory_mib"])
        self.log_group_name = given["log_group"]
        self.log_stream_name = given["log_stream"]
        self.identity = None
        self.client_context = None
        self._ends = time.monotonic() + given["timeout_seconds"]

    def get_remaining_time_in_millis(self) -> int:
        return max(0, int((self._ends - time.monotonic()) * 1000))


def answer(**members: Any) -> None:
    """Writes the answer whole or not at all."""
    with open(f"{ANSWER}.tmp", "w", encoding="utf-8") as file:
        json.dump(members, file)
    os.replace(f"{ANSWER}.tmp", ANSWER)


def fail(error: str, message: str) -> "int":
    print(f"[ERROR] {error}: {message}", flush=True)
    answer(error=error, message=message)
    return 1


def limited(seconds: float, given: "dict[str, Any]") -> threading.Timer:
    """Ends the process after so many seconds, unless the timer is cancelled."""

    def end() -> None:
        print(f"{given['request_id']} Task timed out after {given['timeout_seconds']:.2f} seconds", flush=True)
        answer(timed_out=True)
        os._exit(TIMED_OUT)

    timer = threading.Timer(seconds, end)
    timer.daemon = True
    timer.start()
    return timer


def handler_of(given: "dict[str, Any]") -> Any:
    """Imports the module of a handler `a/b.c`. Returns the function, or the name and text of an error."""
    module_name, dot, name = given["handler"].rpartition(".")
    if not dot:
        return "Runtime.MalformedHandlerName", f"Bad handler '{given['handler']}': not enough values to unpack"
    try:
        module = importlib.import_module(module_name.replace("/", "."))
    except ImportError as error:
        traceback.print_exc()
        return "Runtime.ImportModuleError", f"Unable to import module '{module_name}': {error}"
    except SyntaxError as error:
        traceback.print_exc()
        return "Runtime.UserCodeSyntaxError", f"Syntax error in module '{module_name}': {error}"
    except Exception as error:
        traceback.print_exc()
        return type(error).__name__, str(error)
    found = getattr(module, name, None)
    if found is None:
        return "Runtime.HandlerNotFound", f"Handler '{name}' missing on module '{module_name}'"
    return found


def plain(value: Any) -> Any:
    if isinstance(value, Decimal):
        return float(value)
    raise TypeError(f"Object of type {type(value).__name__} is not JSON serializable")


def main() -> int:
    with open(os.path.join(HERE, "invocation.json"), encoding="utf-8") as file:
        given = json.load(file)
    with open(os.path.join(HERE, "event.json"), encoding="utf-8") as file:
        event = json.load(file)
    root = os.environ["LAMBDA_TASK_ROOT"]
    sys.path[0] = root
    os.chdir(root)
    logging.basicConfig(stream=sys.stdout, format="[%(levelname)s]\t%(asctime)s\t%(message)s")
    print(f"START RequestId: {given['request_id']} Version: {given['version']}", flush=True)
    importing = limited(INIT_SECONDS + given["timeout_seconds"], given)
    handler = handler_of(given)
    importing.cancel()
    if isinstance(handler, tuple):
        return fail(*handler)
    return run(handler, event, given)


def run(handler: Any, event: Any, given: "dict[str, Any]") -> int:
    running = limited(given["timeout_seconds"], given)
    try:
        result = handler(event, Context(given))
    except Exception as error:
        running.cancel()
        traceback.print_exc()
        return fail(type(error).__name__, str(error))
    running.cancel()
    try:
        payload = json.dumps(result, default=plain)
    except (TypeError, ValueError, RecursionError) as error:
        return fail("Runtime.MarshalError", f"Unable to marshal response: {error}")
    if len(payload.encode()) > LARGEST:
        return fail(
            "Function.ResponseSizeTooLarge", f"Response payload size exceeded maximum allowed ({LARGEST} bytes)"
        )
    answer(payload=payload)
    print(f"END RequestId: {given['request_id']}", flush=True)
    return 0


if __name__ == "__main__":
    code = main()
    sys.stdout.flush()
    # Threads that the function left do not keep the invocation.
    os._exit(code)
