"""torch.utils.cpp_extension: load_inline compiles sources; the tools that build packages against PyTorch are missing."""

from ..cuda.inline import load_inline
from ..torch._missing import missing

BuildExtension, CppExtension, CUDAExtension, load, include_paths, library_paths = (
    missing(f"torch.utils.cpp_extension.{name}")
    for name in "BuildExtension CppExtension CUDAExtension load include_paths library_paths".split()
)
CUDA_HOME = None

__all__ = ["load_inline"]


def is_ninja_available():
    """False: nothing is built here."""
    return False
