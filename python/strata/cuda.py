"""NVIDIA GPUs. Importing this touches no driver; is_available() asks for one, and why_not() says what is missing."""

import sys

from ._devices import fill

fill(sys.modules[__name__], "cuda")
