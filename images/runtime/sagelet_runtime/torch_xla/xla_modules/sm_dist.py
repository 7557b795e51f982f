"""`torch_xla.distributed.sm_dist`, which only AWS's torch_xla had."""

from sagelet_runtime.workers.sm_dist import main

if __name__ == "__main__":
    main()
