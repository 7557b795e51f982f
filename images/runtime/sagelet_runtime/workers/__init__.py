"""Several workers on one or more hosts: who they are, how they start, and how they end together."""
