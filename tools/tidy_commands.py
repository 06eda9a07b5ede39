"""Writes compile commands for clang-tidy: in a unity build, CMake lists only the joined files, not the sources in them.
Precompiled headers are left out, which clang cannot read if GCC made them, and options that it does not know.

usage: tidy_commands.py BUILD > compile_commands.json
"""

import json
import pathlib
import re
import sys


def sources(file):
    """The sources that a joined file includes; an ordinary file is its own source."""
    if "Unity" not in file.parts:
        return [str(file)]
    return re.findall(r'^#include "(.+\.cpp)"', file.read_text(), re.MULTILINE)


def main():
    commands = json.loads((pathlib.Path(sys.argv[1]) / "compile_commands.json").read_text())
    rows = []
    for row in commands:
        for source in sources(pathlib.Path(row["file"])):
            command = re.sub(r" -Winvalid-pch| -include \S*cmake_pch\.hxx| -fvect-cost-model=\w+", "", row["command"])
            rows.append(row | {"file": source, "command": command.replace(row["file"], source)})
    json.dump(rows, sys.stdout, indent=1)


if __name__ == "__main__":
    main()
