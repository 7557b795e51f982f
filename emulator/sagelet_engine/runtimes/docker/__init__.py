"""The Docker runtime. This package loads docker-py first, without the SSH client that comes with it.

docker-py imports paramiko wherever it is installed, and AWS's toolkit brings it. Loading it takes longer than the rest
of docker-py. Only a DOCKER_HOST of `ssh://` needs it.
"""

import os
import sys

if os.environ.get("DOCKER_HOST", "").startswith("ssh://") or "paramiko" in sys.modules:
    import docker as docker
else:
    # Python's way to say that a module cannot be imported. docker-py then does without.
    sys.modules["paramiko"] = None  # type: ignore[assignment]
    try:
        import docker as docker
    finally:
        del sys.modules["paramiko"]
