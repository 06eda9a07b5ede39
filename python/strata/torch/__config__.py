"""torch.__config__: how the library was built."""

import strata

from .. import _C


def show():
    """A text about the build."""
    libraries = ", ".join(f["name"] for f in _C._cuda_libraries() if not f["why_not"]) or "none found"
    return f"Strata {strata.__version__}\n  - C++20\n  - NVIDIA libraries: {libraries}\n"


def parallel_info():
    """A text about threads."""
    return f"threads: {strata.get_num_threads()}\n"
