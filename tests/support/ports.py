"""A port whose number is needed before somebody listens on it: of a server that is started again, or of a daemon.

Whoever can listen on port 0 and read the address needs none of this.
"""

import os
import socket
import weakref


class HeldPort:
    """Holds a port of all addresses for as long as this object lives. Nobody who asks for port 0 gets it.

    The socket does not listen, so a program that sets SO_REUSEADDR can (Python's servers, Slurm's daemons).
    """

    def __init__(self) -> None:
        holder = socket.socket()
        holder.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        holder.bind(("", 0))
        self.number: int = holder.getsockname()[1]
        weakref.finalize(self, os.close, holder.detach())
