"""`torch_xla.distributed.xla_spawn`, which only AWS's torch_xla had."""

from sagelet_runtime.workers.xla_spawn import main

if __name__ == "__main__":
    main()
