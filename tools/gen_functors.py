"""Lists the functors of each header in src/device/functors: NAME.h gives OUTPUT_FOLDER/functors/NAME.inc.

usage: gen_functors.py OUTPUT_FOLDER FUNCTOR_HEADER...

A functor is a `template <class T> struct Name` with a kInputs constant. cpu/pointwise/*_simd.cpp compile each list once per SIMD target.
"""

import pathlib
import re
import sys

FUNCTOR = re.compile(r"^template <class T> struct (\w+)[^{;]*\{\s*\n\s*static constexpr int kInputs", re.M)


def main(folder, headers):
    for header in map(pathlib.Path, headers):
        names = FUNCTOR.findall(header.read_text())
        if not names:
            continue
        content = "".join(f"STRATA_FUNCTOR({name})\n" for name in names)
        path = pathlib.Path(folder) / "functors" / f"{header.stem}.inc"
        path.parent.mkdir(parents=True, exist_ok=True)
        if not path.exists() or path.read_text() != content:
            path.write_text(content)


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2:])
