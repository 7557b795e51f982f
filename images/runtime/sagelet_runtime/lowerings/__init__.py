"""Computes some of torch's functions in a form that XLA compiles well for CPUs.

On GPUs XLA has other kernels. None has shown which form is faster there, so GPUs keep torch_xla's.
"""
