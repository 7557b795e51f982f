"""How a server of this machine is called."""

#: Names by which a server on this machine is reached from the machine and from its containers.
LOCAL_NAMES = frozenset({"localhost", "127.0.0.1", "::1", "host.docker.internal"})
