"""Makes PyTorch's ordinary wheel for Linux on x86-64 installable without CUDA: its kernels and NVIDIA's libraries.

`wheel` rewrites the wheel. `stand_ins` decides what the small libraries hold that take the place of the large ones.
`shared_object` writes such a library, `elf` reads the libraries that stay. Standard library only, Python 3.9: the
build of the training image runs it before anything else is installed.
"""
