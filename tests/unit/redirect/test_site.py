"""What every Python under `sagelet run` loads at its start, in processes of their own."""

import ast
import json
import os
import subprocess
import sys
import textwrap
from pathlib import Path
from typing import Any

import pytest

from sagelet_api.redirect.environment import SITE
from sagelet_api.redirect.site import _sagelet_redirect as redirect

ENDPOINT = "http://127.0.0.1:4599"


def python(script: str, *paths: Path, endpoint: str = ENDPOINT) -> Any:
    """Runs a script with `SITE` first on PYTHONPATH and returns what it printed last, as JSON."""
    environ = {name: value for name, value in os.environ.items() if not name.startswith(("AWS_", "SAGE"))}
    environ |= {
        "PYTHONPATH": os.pathsep.join(map(str, [SITE, *paths])),
        "SAGELET_ENDPOINT": endpoint,
        "AWS_DEFAULT_REGION": "us-east-1",
    }
    done = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(script)], env=environ, capture_output=True, text=True, timeout=120
    )
    assert done.returncode == 0, done.stderr
    assert done.stderr == ""
    return json.loads(done.stdout.splitlines()[-1])


def module(root: Path, name: str, text: str) -> None:
    file = root.joinpath(*name.split(".")).with_suffix(".py")
    file.parent.mkdir(parents=True, exist_ok=True)
    for parent in file.parents:
        if parent != root and parent.is_relative_to(root):
            (parent / "__init__.py").touch()
    file.write_text(textwrap.dedent(text))


URLS = """
    import json, boto3
    given = [None, "https://sts.us-east-1.amazonaws.com", "https://sts.cn-north-1.amazonaws.com.cn",
             "http://localhost:9000", "https://amazonaws.com.example.org"]
    print(json.dumps([boto3.client("sts", endpoint_url=url).meta.endpoint_url for url in given]))
"""


def test_clients_go_to_sagelet_unless_their_endpoint_is_not_awss() -> None:
    own = ["http://localhost:9000", "https://amazonaws.com.example.org"]
    assert python(URLS) == [ENDPOINT] * 3 + own


def test_nothing_happens_without_an_endpoint() -> None:
    assert python(URLS, endpoint="")[1] == "https://sts.us-east-1.amazonaws.com"


def test_a_client_of_a_session_and_a_positional_endpoint() -> None:
    script = """
        import json, botocore.session
        session = botocore.session.Session()
        client = session.create_client("sts", "eu-west-1", None, True, None, "https://sts.eu-west-1.amazonaws.com")
        print(json.dumps([client.meta.endpoint_url, client.meta.region_name, type(session).create_client.__name__]))
    """
    assert python(script) == [ENDPOINT, "eu-west-1", "create_client"]


def test_botocore_is_not_loaded_by_us_and_may_be_loaded_before(tmp_path: Path) -> None:
    assert python("import json, sys; print(json.dumps('botocore' in sys.modules))") is False
    # A .pth file of the user's environment is run before sitecustomize.
    module(tmp_path, "botocore.session", "class Session:\n    def create_client(self, *args): return args")
    script = """
        import json, sys
        import botocore.session
        import _sagelet_redirect
        _sagelet_redirect.activate("http://127.0.0.1:1")
        print(json.dumps(botocore.session.Session().create_client("s3")))
    """
    # Wrapped at the import, and a second time for what was there already: the first endpoint is not AWS's.
    assert python(script, tmp_path)[5] == "http://127.0.0.1:1"


def test_clients_of_aiobotocore(tmp_path: Path) -> None:
    module(
        tmp_path,
        "aiobotocore.session",
        """
        class AioSession:
            def create_client(self, *args, **kwargs):
                return [args, kwargs]
        """,
    )
    script = """
        import json
        from aiobotocore.session import AioSession
        print(json.dumps(AioSession().create_client("s3", config=7)))
    """
    assert python(script, tmp_path) == [["s3", None, None, True, None, ENDPOINT], {"config": 7}]


@pytest.mark.parametrize(
    "name", ["sagemaker.telemetry.telemetry_logging", "sagemaker.core.telemetry.telemetry_logging"]
)
def test_the_sdks_telemetry_is_off(tmp_path: Path, name: str) -> None:
    module(
        tmp_path,
        name,
        """
        TELEMETRY_OPT_OUT_MESSAGING = "we collect"
        def _requests_helper(url, timeout): raise AssertionError("sent")
        def _send_telemetry_request(*args): raise AssertionError("sent")
        def emit(): _send_telemetry_request(1, 2); _requests_helper("x", 2); return TELEMETRY_OPT_OUT_MESSAGING
        """,
    )
    assert "is off" in python(f"import json, {name} as t; print(json.dumps(t.emit()))", tmp_path)


def test_the_hidden_sitecustomize_runs_under_its_own_name(tmp_path: Path) -> None:
    (tmp_path / "sitecustomize.py").write_text("import builtins, os; builtins.mine = [__name__, __file__]; x = 7")
    script = """
        import json, sitecustomize
        print(json.dumps([*mine, sitecustomize.x]))
    """
    assert python(script, tmp_path) == ["sitecustomize", str(tmp_path / "sitecustomize.py"), 7]
    child = "import subprocess, sys; subprocess.run([sys.executable, '-c', 'import json; print(json.dumps(mine[0]))'])"
    assert python(child, tmp_path) == "sitecustomize"
    assert python(URLS, tmp_path)[1] == ENDPOINT


def test_without_a_hidden_one_ours_stays() -> None:
    """Debian's Python has one of its own."""
    script = "import json, sys; print(json.dumps(sys.modules['sitecustomize'].__file__))"
    find = "from importlib.util import find_spec; print(getattr(find_spec('sitecustomize'), 'origin', None) or '')"
    alone = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    hidden = subprocess.check_output([sys.executable, "-c", find], env=alone, text=True).strip()
    assert python(script) == (hidden or str(SITE / "sitecustomize.py"))


def test_an_import_that_fails_says_what_it_said_before(tmp_path: Path) -> None:
    module(tmp_path, "botocore.session", "raise RuntimeError('broken install')")
    script = """
        import importlib, json
        said = []
        for _ in range(2):
            try:
                importlib.import_module("botocore.session")
            except RuntimeError as error:
                said.append(str(error))
        print(json.dumps([said, importlib.util.find_spec("aiobotocore") is None]))
    """
    assert python(script, tmp_path) == [["broken install"] * 2, True]


@pytest.mark.parametrize("file", sorted(SITE.glob("*.py")), ids=lambda file: file.name)
def test_the_syntax_is_python_3_8s_and_the_imports_are_the_standard_librarys(file: Path) -> None:
    tree = ast.parse(file.read_text(), feature_version=(3, 8))
    imported = {alias.name for node in ast.walk(tree) if isinstance(node, ast.Import) for alias in node.names}
    imported |= {str(node.module) for node in ast.walk(tree) if isinstance(node, ast.ImportFrom)}
    ours = {"_sagelet_redirect"}
    assert {name.partition(".")[0] for name in imported} <= sys.stdlib_module_names | ours


@pytest.mark.parametrize(
    ("url", "expected"),
    [
        ("https://sts.us-east-1.amazonaws.com", True),
        ("https://s3.dualstack.eu-west-1.amazonaws.com:443/", True),
        ("https://sts.cn-north-1.amazonaws.com.cn", True),
        ("https://ecr.eu-central-1.api.aws", True),
        ("http://localhost:4566", False),
        ("https://minio.example.com", False),
        ("https://sts.amazonaws.com.", True),
        ("https://sts.amazonaws.com..:443", True),
        ("https://STS.AMAZONAWS.COM./", True),
        ("https://sts\u3002amazonaws\uff0ecom", True),
        ("https://sts.amazonaws%2Ecom", True),
        ("https://user@sts.amazonaws.com.:443", True),
        ("https://notamazonaws.com", False),
        ("https://notamazonaws.com.", False),
        ("https://amazonaws.com.example.org.", False),
        ("", False),
    ],
)
def test_which_endpoints_are_awss(url: str, expected: bool) -> None:
    assert redirect.is_aws(url) is expected
