"""Lists the functors of each header in src/device/functors: NAME.h gives OUTPUT_FOLDER/functors/NAME.inc.

usage: gen_functors.py OUTPUT_FOLDER FUNCTOR_HEADER...

A functor is a `template <class T> struct Name` with a kInputs constant. cpu/pointwise/*_simd.cpp compile each list once per SIMD target.
"""

import pathlib
import re
import sys

import signatures

FUNCTOR = re.compile(r"^template <class T> struct (\w+)[^{;]*\{\s*\n\s*static constexpr int kInputs", re.M)
INPUTS = re.compile(r"^ *static constexpr int kInputs", re.M)


def main(folder, headers):
    for header in map(pathlib.Path, headers):
        text = header.read_text()
        found = list(FUNCTOR.finditer(text))
        read = {f.end() for f in found}
        for other in INPUTS.finditer(text):
            if other.end() not in read:
                line = text.count("\n", 0, other.start()) + 1
                form = "`template <class T> struct Name : FloatOnly {`, with kInputs in the next line"
                raise signatures.DefinitionError(f"{header}:{line}: a functor starts with {form}")
        names = [f[1] for f in found]
        if not names:
            continue
        content = "".join(f"STRATA_FUNCTOR({name})\n" for name in names)
        path = pathlib.Path(folder) / "functors" / f"{header.stem}.inc"
        path.parent.mkdir(parents=True, exist_ok=True)
        if not path.exists() or path.read_text() != content:
            path.write_text(content)


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2:])
