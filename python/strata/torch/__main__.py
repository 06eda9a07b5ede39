"""python -m strata.torch [-m module | -c code | script] arguments: runs a PyTorch program with Strata in torch's place."""

import sys

from .._run_program import run_program
from . import install

_USAGE = """usage: python -m strata.torch script.py [arguments]
       python -m strata.torch -m module [arguments]
       python -m strata.torch -c "import torch; ..." [arguments]

Runs a program that says `import torch` with Strata in the place of PyTorch.

example: python -m strata.torch train.py --epochs 3"""

if __name__ == "__main__":
    sys.exit(run_program(sys.argv[1:], "strata.torch", _USAGE, install))
