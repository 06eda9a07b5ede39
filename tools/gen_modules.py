"""Generates the modules of both languages from their records: C++ classes (gen_modules_cpp.py), Python classes
(gen_modules_python.py), their type stubs (gen_modules_stubs.py) and the samples as C++ calls (gen_module_samples.py).

usage: gen_modules.py OUTPUT_FOLDER OPS... RECORDS.modules...   (the build calls it through gen_ops.py)
"""

import pathlib

import gen_module_samples
import gen_modules_cpp
import gen_modules_python
import gen_modules_stubs
import module_records


def main(folder, ops, sources, write):
    """ops are the op definitions, by which calls in expressions are resolved; write(path, text) writes a file."""
    out = pathlib.Path(folder)
    table = OpTable(ops)
    families = {pathlib.Path(s).stem: module_records.read(s) for s in sorted(sources)}
    for family, records in families.items():
        write(out / "strata" / "nn" / f"{family}.h", gen_modules_cpp.header(family, records))
        write(out / "nn" / f"{family}.cpp", gen_modules_cpp.source(family, records, table))
    umbrella = "// Generated: every module of the records. Do not edit.\n#pragma once\n"
    write(out / "strata" / "nn" / "modules.h", umbrella + "".join(f'#include "strata/nn/{f}.h"\n' for f in families))
    records = [r for group in families.values() for r in group]
    write(out / "tests" / "module_samples.inc", gen_module_samples.samples(records))
    package = out / "python" / "strata" / "nn"
    write(package / "_modules.py", gen_modules_python.module(records, table))
    write(package / "_modules.pyi", gen_modules_stubs.modules(records))
    write(package / "__init__.pyi", gen_modules_stubs.package(records))


class OpTable:
    """Finds the op of a short name: nn.functional before the rest."""

    def __init__(self, ops):
        self.ops = {}
        for op in ops:
            for name in [op.namespace + op.name, *op.aliases]:
                self.ops.setdefault(name, op)

    def find(self, name):
        """(full name, op)."""
        for full in (f"nn.functional.{name}", name):
            if full in self.ops:
                return full, self.ops[full]
        raise module_records.RecordError(f"there is no op `{name}` and no op `nn.functional.{name}`")

    def init(self, name):
        if f"nn.init.{name}" not in self.ops:
            raise module_records.RecordError(f"there is no initializer `nn.init.{name}`")
        return self.ops[f"nn.init.{name}"]
