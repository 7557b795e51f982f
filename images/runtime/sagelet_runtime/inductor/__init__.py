"""PyTorch's Inductor as the compiler of a job, in place of XLA. The job asks for it by SAGELET_COMPILER."""
