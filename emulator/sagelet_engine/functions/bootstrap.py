"""Runs the handler of a Lambda function once. It is copied beside the event. Standard library only, for Python 3.9.

The directory that it is in has `event.json` and `invocation.json`. The answer goes to `../output/answer.json`:
`payload` (JSON text), or `error`, `message` and `stack`, or `timed_out`; and numbers for the REPORT line. Names and
texts of errors are those of AWS's runtime interface client for Python, which is public
(aws-lambda-python-runtime-interface-client, bootstrap.py).
"""

import importlib
import json
import logging
import os
import resource
import sys
import threading
import time
import traceback
from typing import Any

HERE = os.path.dirname(os.path.abspath(__file__))
ANSWER = os.path.join(os.path.dirname(HERE), "output", "answer.json")
#: Seconds that Lambda gives the import of a function's module before the time of the function begins.
INIT_SECONDS = 10
#: Bytes of an answer, at most (Lambda quotas).
LARGEST = 6 * 1024**2
TIMED_OUT = 124
#: The directory of the function's package.
ROOT = os.environ.get("LAMBDA_TASK_ROOT", "/var/task")


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


class Clock:
    """When the function's own time began. The import of its module is not part of it."""

    began: "float | None" = None


def answer(**members: Any) -> None:
    """Writes the answer whole or not at all."""
    if Clock.began is not None:
        members["duration_ms"] = (time.monotonic() - Clock.began) * 1000
    members["memory_kib"] = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    with open(f"{ANSWER}.tmp", "w", encoding="utf-8") as file:
        json.dump(members, file)
    os.replace(f"{ANSWER}.tmp", ANSWER)


def fail(error: str, message: str, stack: "list[str] | None" = None) -> "int":
    print(f"[ERROR] {error}: {message}", flush=True)
    if stack:
        print("Traceback (most recent call last):\n" + "".join(stack).rstrip("\n"), flush=True)
    answer(error=error, message=message, stack=stack or [])
    return 1


def stack_of(error: BaseException) -> "list[str]":
    """Returns the frames of the function's own code, and of what it calls."""
    frames = traceback.extract_tb(error.__traceback__)
    own = next((number for number, frame in enumerate(frames) if frame.filename.startswith(ROOT)), len(frames))
    return traceback.format_list(frames[own:])


def limited(seconds: float, given: "dict[str, Any]") -> threading.Timer:
    """Ends the process after so many seconds, unless the timer is cancelled."""

    def end() -> None:
        now = time.strftime("%Y-%m-%dT%H:%M:%S.000Z", time.gmtime())
        print(f"{now} {given['request_id']} Task timed out after {given['timeout_seconds']:.2f} seconds", flush=True)
        answer(timed_out=True)
        os._exit(TIMED_OUT)

    timer = threading.Timer(seconds, end)
    timer.daemon = True
    timer.start()
    return timer


def handler_of(given: "dict[str, Any]") -> Any:
    """Imports the module of a handler `a/b.c`. Returns the function, or name, text and frames of an error."""
    module_name, dot, name = given["handler"].rpartition(".")
    if not dot:
        return "Runtime.MalformedHandlerName", f"Bad handler '{given['handler']}': not enough values to unpack", []
    try:
        module = importlib.import_module(module_name.replace("/", "."))
    except ImportError as error:
        # AWS answers without frames. The log has them for the user.
        traceback.print_exc()
        return "Runtime.ImportModuleError", f"Unable to import module '{module_name}': {error}", []
    except SyntaxError as error:
        where = f'  File "{error.filename}" Line {error.lineno}\n    {error.text}'
        return "Runtime.UserCodeSyntaxError", f"Syntax error in module '{module_name}': {error}", [where]
    except Exception as error:
        return type(error).__name__, str(error), stack_of(error)
    found = getattr(module, name, None)
    if found is None:
        return "Runtime.HandlerNotFound", f"Handler '{name}' missing on module '{module_name}'", []
    return found


def plain(value: Any) -> Any:
    from decimal import Decimal  # Loaded late: the server imports this module, too.

    if isinstance(value, Decimal):
        return float(value)
    raise TypeError(f"Object of type {type(value).__name__} is not JSON serializable")


def main() -> int:
    with open(os.path.join(HERE, "invocation.json"), encoding="utf-8") as file:
        given = json.load(file)
    with open(os.path.join(HERE, "event.json"), encoding="utf-8") as file:
        event = json.load(file)
    sys.path[0] = ROOT
    os.chdir(ROOT)
    logging.basicConfig(stream=sys.stdout, format="[%(levelname)s]\t%(asctime)s\t%(message)s")
    print(f"START RequestId: {given['request_id']} Version: {given['version']}", flush=True)
    importing = limited(INIT_SECONDS + given["timeout_seconds"], given)
    handler = handler_of(given)
    importing.cancel()
    if isinstance(handler, tuple):
        return fail(*handler)
    return run(handler, event, given)


def run(handler: Any, event: Any, given: "dict[str, Any]") -> int:
    Clock.began = time.monotonic()
    running = limited(given["timeout_seconds"], given)
    try:
        result = handler(event, Context(given))
    except Exception as error:
        running.cancel()
        return fail(type(error).__name__, str(error), stack_of(error))
    running.cancel()
    try:
        payload = json.dumps(result, default=plain)
    except (TypeError, ValueError, RecursionError) as error:
        return fail("Runtime.MarshalError", f"Unable to marshal response: {error}")
    if len(payload.encode()) > LARGEST:
        return fail(
            "Function.ResponseSizeTooLarge",
            f"Response payload size exceeded maximum allowed payload size ({LARGEST} bytes).",
        )
    answer(payload=payload)
    return 0


if __name__ == "__main__":
    code = main()
    sys.stdout.flush()
    # Threads that the function left do not keep the invocation.
    os._exit(code)
