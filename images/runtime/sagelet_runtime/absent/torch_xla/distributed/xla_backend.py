"""torch_xla.distributed.xla_backend: scripts import it for torch.distributed's backend `xla`.

`uncompiled` lets `init_process_group("xla")` make a group of gloo or NCCL.
"""
