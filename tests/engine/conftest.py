"""The tests of engines use the small models of tests/onnx."""

import pathlib
import sys

sys.path.insert(0, str(pathlib.Path(__file__).parents[1] / "onnx"))
