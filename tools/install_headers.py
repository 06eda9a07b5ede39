"""Copies the public C++ headers as they are installed: strata/strata.h, torch.h, engine.h, nvinfer.h and what they include.

usage: install_headers.py OUTPUT_FOLDER INCLUDE_FOLDER...

In the source tree a header is included by its path from src/ ("base/error.h"). Another project may have a header of that
name, so installed headers are all below strata/ and include each other as "strata/...": "base/error.h" becomes
"strata/layers/base/error.h". Headers that are "strata/..." already keep their names.

Functions between the two marks are for the library itself and are left out.
"""

import pathlib
import re
import sys

ENTRIES = ["strata/strata.h", "strata/torch.h", "strata/engine.h", "strata/nvinfer.h"]
INCLUDE = re.compile(r'^([ \t]*#[ \t]*include[ \t]*)(?:"([^"]+)"|<([^>]+)>)', re.M)
INTERNAL = re.compile(r"^// begin internal\n.*?^// end internal\n", re.M | re.S)


def installed_name(name):
    return name if name.startswith("strata/") else f"strata/layers/{name}"


def public_headers(folders):
    """{installed name: text} of all headers that the public ones reach."""
    found, waiting = {}, list(ENTRIES)
    while waiting:
        name = waiting.pop()
        if installed_name(name) in found:
            continue
        file = next((folder / name for folder in folders if (folder / name).is_file()), None)
        if file is None:
            raise SystemExit(f'install_headers.py: "{name}" is in none of {", ".join(map(str, folders))}')
        text = INTERNAL.sub("", file.read_text())
        for _, quoted, system in INCLUDE.findall(text):
            if quoted:
                waiting.append(quoted)
            elif "/" in system or "." in system:
                raise SystemExit(
                    f"install_headers.py: {file} is public and includes <{system}>, which users may not have"
                )
        found[installed_name(name)] = INCLUDE.sub(lambda m: f'{m[1]}"{installed_name(m[2])}"' if m[2] else m[0], text)
    return found


def main(output, folders):
    headers = public_headers([pathlib.Path(f) for f in folders])
    output = pathlib.Path(output)
    for path in output.rglob("*.*") if output.exists() else ():
        if path.is_file() and str(path.relative_to(output)) not in headers:
            path.unlink()
    for name, text in headers.items():
        path = output / name
        path.parent.mkdir(parents=True, exist_ok=True)
        if not path.exists() or path.read_text() != text:
            path.write_text(text)


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2:])
