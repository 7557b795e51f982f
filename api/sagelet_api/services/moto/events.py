"""Passes events to the rules of moto's EventBridge, and on to their targets.

moto's own PutEvents fires disabled rules, stops at the first target that fails, and leaves out the account.
"""

import copy
import json
import logging
import time
import uuid
from collections.abc import Callable, Mapping
from datetime import datetime, timezone
from typing import Any

from sagelet_api.services.moto.event_input import target_input
from sagelet_api.services.moto.process import MotoProcess

_log = logging.getLogger(__name__)

#: Names of metrics (user guide, "Monitoring Amazon EventBridge").
FAILED, UNBURIED = "FailedInvocations", "InvocationsFailedToBeSentToDlq"

Event = Mapping[str, Any]
#: Returns moto's backends of a service, by account and region.
Backends = Callable[[str], Any]


def deliver(backends: Backends, account: str, region: str, event: Event, passed: tuple[str, ...] = ()) -> None:
    """Sends an event to every target of every matching rule of the default bus, in the order of the rules.

    A target that fails does not stop the others. As on AWS, it counts in the metric FailedInvocations of the rule, and
    its queue for dead letters gets the event (user guide, "Monitoring Amazon EventBridge", "Using dead-letter queues").
    `passed`: ARNs of the buses that the event has been on;
    the last is the present one.
    """
    buses = backends("events")[account][region].event_buses
    name = passed[-1].rpartition("/")[2] if passed else "default"
    if name not in buses:
        raise LookupError(f"there is no event bus {name} in account {account} and region {region}")
    bus = buses[name]
    # In one step, because other threads put rules.
    for rule in list(dict.values(bus.rules)):
        if rule.state == "DISABLED" or not _matches(backends, rule, event):
            continue
        for target in list(rule.targets):
            try:
                _send(backends, rule, target, event, passed or (bus.arn,))
            except Exception as error:
                why = f"{type(error).__name__}: {error}"
                _log.warning("EventBridge rule %s: target %s did not get an event: %s", rule.name, target["Arn"], why)
                _count(backends, rule, FAILED)
                _bury(backends, rule, target, event, why)


def _count(backends: Backends, rule: Any, metric: str) -> None:
    """Adds 1 to a metric of a rule, as CloudWatch has them of EventBridge."""
    _, _, _, region, account, _ = rule.arn.split(":", 5)
    datum = {
        "MetricName": metric,
        "Dimensions": [{"Name": "RuleName", "Value": rule.name}],
        "Unit": "Count",
        "Timestamp": datetime.now(timezone.utc).replace(tzinfo=None),
        "Value": 1.0,
    }
    backends("cloudwatch")[account][region].put_metric_data("AWS/Events", [datum])


def _bury(backends: Backends, rule: Any, target: Mapping[str, Any], event: Event, why: str) -> None:
    """Sends an event to the queue for dead letters of a target, if it has one."""
    queue = (target.get("DeadLetterConfig") or {}).get("Arn")
    if not queue:
        return
    try:
        attributes = {
            name: {"data_type": "String", "string_value": value}
            for name, value in (("RULE_ARN", rule.arn), ("TARGET_ARN", target["Arn"]), ("ERROR_MESSAGE", why[:1000]))
        }
        _, _, _, region, account, name = queue.split(":", 5)
        backends("sqs")[account][region].send_message(
            queue_name=name, message_body=json.dumps(event), message_attributes=attributes
        )
    except Exception as error:
        _log.warning("EventBridge rule %s: the queue %s is out of reach, too: %r", rule.name, queue, error)
        _count(backends, rule, UNBURIED)


def _matches(backends: Backends, rule: Any, event: Event) -> bool:
    """True if a rule matches an event. A rule without a pattern runs on a schedule; moto would let it match
    everything.
    """
    try:
        return bool(rule.event_pattern.get_pattern()) and rule.event_pattern.matches_event(event)
    except Exception as error:
        _log.warning("EventBridge rule %s: moto cannot match its pattern: %s: %s", rule.name, type(error), error)
        _count(backends, rule, FAILED)
        return False


def _send(backends: Backends, rule: Any, target: Mapping[str, Any], event: Event, passed: tuple[str, ...]) -> None:
    arn = target["Arn"]
    _, _, service, region, account, resource = arn.split(":", 5)
    if service == "sqs":
        text = target_input(target, event, {"name": rule.name, "arn": rule.arn})
        group = (target.get("SqsParameters") or {}).get("MessageGroupId")
        backends("sqs")[account][region].send_message(queue_name=resource, message_body=text, group_id=group)
    elif service == "logs":
        text = target_input(target, event, {"name": rule.name, "arn": rule.arn})
        _log_line(backends("logs")[account][region], resource.removeprefix("log-group:").removesuffix(":*"), text)
    elif service == "events" and resource.startswith("event-bus/"):
        if arn not in passed:
            deliver(backends, account, region, event, (*passed, arn))
    elif service != "events" or resource.strip(":"):
        raise LookupError("sagelet delivers to SQS queues, CloudWatch log groups, event buses and archives only")
    else:
        # An archive, which moto implements. It counts time in seconds.
        alone = copy.copy(rule)
        alone.targets = [target]
        now = time.time()
        alone.send_to_targets({**event, "time": now, "ingestion-time": now})


def _log_line(logs: Any, group: str, text: str) -> None:
    """Writes a log event. EventBridge gives each event a stream of its own."""
    stream = str(uuid.uuid4())
    logs.create_log_stream(group, stream)
    logs.put_log_events(group, stream, [{"timestamp": round(time.time() * 1000), "message": text}])


def _has_rules(backend: Any) -> bool:
    bus = backend.event_buses.get("default")
    return bus is not None and bool(bus.rules)


class MotoEvents:
    """An EventBus: passes events to the rules of an account's default event bus."""

    def __init__(self, moto: MotoProcess) -> None:
        self._moto = moto

    @property
    def has_any_rules(self) -> bool:
        """False while moto is not loaded."""
        if not self._moto.is_loaded:
            return False
        # In one step each, because other threads make backends.
        accounts = list(self._moto.backend("events").items())
        return any(_has_rules(backend) for _, regions in accounts for backend in list(regions.values()))

    def has_rules(self, account: str, region: str) -> bool:
        """False while moto is not loaded."""
        return self._moto.is_loaded and _has_rules(self._moto.backend("events")[account][region])

    def put_event(self, account: str, region: str, event: Event) -> None:
        deliver(self._moto.backend, account, region, event)
