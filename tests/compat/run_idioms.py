"""Runs idioms in this process, with `torch` as it is found there, and prints their results as JSON: {idiom: text}."""

import ast
import contextlib
import io
import json
import sys
import warnings

PRELUDE = """
import copy, io, math, os, pickle
from collections import OrderedDict
import numpy as np
import torch, torch.nn as nn, torch.nn.functional as F
import torch.distributed, torch.utils.checkpoint, torch.multiprocessing, torch.hub, torch.overrides, torch.testing
"""


def result_of(idiom, names):
    """What an idiom prints and the repr of its last expression; of one that raises, the type of the error."""
    tree = ast.parse(idiom)
    *body, last = tree.body
    out = io.StringIO()
    try:
        with contextlib.redirect_stdout(out):
            exec(compile(ast.Module(body, []), "<idiom>", "exec"), names)
            value = eval(compile(ast.Expression(last.value), "<idiom>", "eval"), names)
    except Exception as error:
        return f"{type(error).__name__}: {error}"
    return out.getvalue() + repr(value)


def main(path):
    warnings.simplefilter("ignore")
    base, results = {}, {}
    exec(PRELUDE, base)
    with open(path) as f:
        idioms = json.load(f)
    for idiom in idioms:
        results[idiom] = result_of(idiom, dict(base))
    json.dump(results, sys.stdout)


if __name__ == "__main__":
    main(sys.argv[1])
