"""torch.utils.cpp_extension: programs written for PyTorch's C++ interface cannot be built against Strata."""

from ..torch._missing import missing

BuildExtension, CppExtension, CUDAExtension, load, load_inline, include_paths, library_paths = (
    missing(f"torch.utils.cpp_extension.{name}")
    for name in "BuildExtension CppExtension CUDAExtension load load_inline include_paths library_paths".split()
)
CUDA_HOME = None


def is_ninja_available():
    """False: nothing is built here."""
    return False
