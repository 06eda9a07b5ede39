#!/usr/bin/env python3
"""Fails when an #include in src/ or include/ points up a layer, or an op reads the gradient mode.

usage: check_layers.py [ROOT]

Quoted includes are paths from src/ ("tensor/tensor.h") or name a public or generated header ("strata/ops.h").
Everything that is not Strata's is included with angle brackets.

What an op computes may depend on its arguments only, so that a captured call means the same later. It may turn recording
off for the ops inside, and asks for what its gradient needs by `keeps_for_grad` (record/op.h).
"""

import pathlib
import re
import sys

# The layers, bottom first: a file may include its own layer and those above it in this list.
LAYERS = {
    "device": "formulas and number types for host and device compilers; includes nothing but itself",
    "base": "errors, tracing, threads, files; knows nothing of tensors",
    "tensor": "Tensor and what it is made of",
    "record": "the contracts: Args, op record, kernel entry; every back end may include them",
    "cuda": "CUDA back end: kernels, runtime, driver table; its folders are layers too, see below",
    "cpu": "CPU kernels",
    "autograd": "tape and backward engine; reaches ops only through their records, so not through strata/ops.h",
    "dispatch": "the call pipeline and the registry",
    "ops": "one definition per op; strata/ops.h is derived from them",
    "files": "safetensors files, read in place and written",
    "compile": "graph IR, capture, passes, code generation",
    "onnx": "reader and writer, to and from the graph IR",
    "engine": "builder, plan, tactics",
    "nn": "modules, losses, optimizers, data, checkpoints",
    "system": "what this machine has, what is wrong with it, and what a call does: devices, doctor, trace, explain",
    "public": "include/strata: the C++ interface over all of it",
    "cli": "the strata command",
    "python": "the bindings",
}
ORDER = {name: index for index, name in enumerate(LAYERS)}

# Folders of cuda that are separate layers, bottom first; the families of kernels (pointwise, nn, ...) are above them.
CUDA_LAYERS = {
    "vgpu": "the virtual GPU; knows nothing of the driver interface",
    "driver": "the driver table: libcuda, the virtual GPU behind the same functions",
    "libs": "NVIDIA's libraries, opened at run time",
    "runtime": "devices, streams, events, memory, modules",
    "common": "what kernels of several families use",
}
CUDA_ORDER = {name: index for index, name in enumerate(CUDA_LAYERS)}

# Pairs that the order would allow, but that are forbidden.
FORBIDDEN = {
    ("cpu", "cuda"): "back ends do not know each other",
}

READS_MODE = re.compile(r"^(?!.*Scoped \w+\(thread_state\.grad_mode, false\)).*thread_state\.grad_mode", re.M)
MAY_READ_MODE = {"src/ops/movement/views_inplace.cpp": "changes the history of its input, as autograd does"}

INCLUDE = re.compile(r'^[ \t]*#[ \t]*include[ \t]*"([^"]+)"', re.M)
SUFFIXES = {".h", ".cpp", ".cu", ".cuh", ".inc", ".inl"}


def layer_of_include(path):
    """(layer of "path", None); (None, None) for a generated list that any layer may read; (None, what is wrong)."""
    first, slash, rest = path.partition("/")
    if not slash or first in (".", ".."):
        return None, f'write "{path}" as a path from src/'
    if first != "strata" and first not in ORDER:
        return None, f'"{path}" is no layer of Strata: use <{path}> for other libraries'
    if first != "strata":
        return first, None
    if rest.endswith(".inc"):
        return None, None
    stem = rest.removesuffix(".h").partition("/")[0]  # "ops.h" and "ops/reduce.h" are of ops
    stem = "ops" if stem == "args" else stem  # views of the arguments of ops
    return (stem if stem in ORDER else "public"), None


def layer_of_file(file, root):
    parts = file.relative_to(root).parts
    return "public" if parts[0] == "include" else parts[1]


def points_up_in_cuda(own, target):
    """Whether a file of the folder `own` of cuda may not include one of the folder `target`."""
    return CUDA_ORDER.get(target, len(CUDA_ORDER)) > CUDA_ORDER.get(own, len(CUDA_ORDER))


def check(root):
    problems, files = [], 0
    for top in ("src", "include"):
        for file in sorted((root / top).rglob("*")):
            if file.suffix not in SUFFIXES or not file.is_file():
                continue
            files += 1
            name, own = file.relative_to(root), layer_of_file(file, root)
            if own not in ORDER:
                problems.append(f"{name}: src/{own} is no layer; add it to LAYERS in tools/check_layers.py")
                continue
            text = file.read_text(errors="replace")
            if own == "ops" and name.as_posix() not in MAY_READ_MODE:
                for match in READS_MODE.finditer(text):
                    line = text.count("\n", 0, match.start()) + 1
                    problems.append(
                        f"{name}:{line}: an op reads the gradient mode; take a parameter and keeps_for_grad"
                    )
            for match in INCLUDE.finditer(text):
                line = text.count("\n", 0, match.start()) + 1
                target, message = layer_of_include(match.group(1))
                if target and ORDER[target] > ORDER[own]:
                    message = f'"{match.group(1)}" points up, from {own} to {target} ({target}: {LAYERS[target]})'
                elif target and (own, target) in FORBIDDEN:
                    message = f'"{match.group(1)}": {own} may not include {target}: {FORBIDDEN[own, target]}'
                elif own == target == "cuda":
                    inner, wanted = name.parts[2], match.group(1).split("/")[1]
                    if points_up_in_cuda(inner, wanted):
                        message = f'"{match.group(1)}" points up, from cuda/{inner} to cuda/{wanted}'
                if message:
                    problems.append(f"{name}:{line}: {message}")
    return problems, files


def main():
    root = pathlib.Path(sys.argv[1] if len(sys.argv) > 1 else pathlib.Path(__file__).parent.parent).resolve()
    problems, files = check(root)
    for problem in problems:
        print(problem, file=sys.stderr)
    print(f"check_layers: {files} files, {len(problems)} problem{'' if len(problems) == 1 else 's'}")
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
