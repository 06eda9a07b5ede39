"""The metadata of the distribution `torch` while Strata is in its place: importlib.metadata.version("torch").

Packages ask for the version of torch this way before they import it.
"""

import importlib.metadata

from .version import __version__

_METADATA = f"""Metadata-Version: 2.1
Name: torch
Version: {__version__}
Summary: Strata in the place of PyTorch
"""


class TorchDistribution(importlib.metadata.Distribution):
    """A distribution without files."""

    def read_text(self, filename):
        return _METADATA if filename in ("METADATA", "PKG-INFO") else None

    def locate_file(self, path):
        raise FileNotFoundError(f"torch is provided by Strata, and has no file {path}")
