"""A package `torchvision` that is strata.vision: see torch beside it."""

import importlib
import sys

sys.modules.pop("torchvision", None)
import strata.torch_alias  # noqa: E402

importlib.import_module("torchvision")  # found by the import hook now
