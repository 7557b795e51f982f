"""Imports packages late, so that the server is ready sooner."""

import threading

#: Held while moto or Flask loads: two threads that load packages which import each other (both import Werkzeug) find
#: each other's half made.
LOADING = threading.RLock()
