"""The world of a job's workers on CPUs: XLA compiles each worker's step, gloo exchanges between them.

PJRT's CPU client is always one process without collectives (pytorch/xla `csrc/runtime/pjrt_registry.cpp`): untouched,
`xr.world_size()` is 1 in every worker, `xm.all_reduce` returns its input, and nothing says so.
"""
