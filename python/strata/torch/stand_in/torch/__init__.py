"""A package `torch` that is Strata: importing it puts Strata's modules in its place. See docs/usage/torch_programs.md.

Processes that a program starts find it on the path; the package strata-torch installs it.
"""

import sys

sys.modules.pop("torch", None)
import strata.torch_alias  # noqa: E402
