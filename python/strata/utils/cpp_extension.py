"""torch.utils.cpp_extension: load and load_inline compile sources; the tools that build packages against PyTorch are missing."""

from ..cuda.inline import load, load_inline
from ..torch._missing import missing

BuildExtension, CppExtension, CUDAExtension, include_paths, library_paths = (
    missing(f"torch.utils.cpp_extension.{name}")
    for name in "BuildExtension CppExtension CUDAExtension include_paths library_paths".split()
)
CUDA_HOME = None

__all__ = ["load", "load_inline"]


def is_ninja_available():
    """False: nothing is built here."""
    return False
