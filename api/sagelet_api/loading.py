"""Imports packages late, so that the server is ready sooner."""

import threading

#: Held while moto or Flask loads. Two threads that load packages which import each other (both import Werkzeug) may
#: each find the other's package half loaded.
LOADING = threading.RLock()
