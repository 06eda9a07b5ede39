"""python -m strata.onnxruntime [-m module | -c code | script] arguments: runs a program of onnxruntime over strata.onnx."""

import sys

from .._run_program import run_program
from . import install

_USAGE = """usage: python -m strata.onnxruntime script.py [arguments]
       python -m strata.onnxruntime -m module [arguments]
       python -m strata.onnxruntime -c "import onnxruntime; ..." [arguments]

Runs a program that says `import onnxruntime` with Strata in the place of it.

example: python -m strata.onnxruntime detect.py --image cat.png"""

if __name__ == "__main__":
    sys.exit(run_program(sys.argv[1:], "strata.onnxruntime", _USAGE, install))
