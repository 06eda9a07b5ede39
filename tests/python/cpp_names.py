"""The public names of the C++ library by namespace, read from the headers that strata/strata.h includes."""

import collections
import os
import pathlib
import re

ROOT = pathlib.Path(__file__).resolve().parents[2]
BUILD = pathlib.Path(os.environ.get("STRATA_BUILD_DIR", ROOT / "build/release"))
FOLDERS = [ROOT / "include", ROOT / "src", BUILD / "gen"]

_TYPE = re.compile(r"\b(?:class|struct|enum(?: class)?)\s+(?:STRATA_API\s+)?(\w+)\s*(?:final\b|:[^:]|$)")
_ALIAS = re.compile(r"\busing\s+(\w+)\s*=")
_USING = re.compile(r"\busing\s+[\w:]+::(\w+)\s*$")
_FUNCTION = re.compile(r"[\w>&*\]]\s+[&*]?(\w+)\s*\(")


def headers(start="strata/strata.h"):
    """The text of a header and of all of ours that it includes."""
    found, todo = {}, [start]
    while todo:
        name = todo.pop()
        path = next((f / name for f in FOLDERS if (f / name).is_file()), None)
        if path is None or name in found:
            continue
        found[name] = path.read_text()
        todo += re.findall(r'^#include "([^"]+)"', found[name], re.M)
    return found


def _statement(text, names):
    """Adds the names of one declaration at namespace level."""
    text = re.sub(
        r"\btemplate\s*<[^{;]*?>\s*(?=\b(?:class|struct|inline|Tensor|std|requires|void|bool|auto)\b)", " ", text
    )
    text = re.sub(r"\brequires\b.*?\b(?=Tensor\b)", " ", text)
    for pattern in (_TYPE, _ALIAS, _USING):
        if match := pattern.search(text):
            names.add(match[1])
            return
    if match := _FUNCTION.search(text):
        names.add(match[1])


def names_by_namespace():
    """{"strata::nn": {"Linear", ...}, ...}"""
    found = collections.defaultdict(set)
    for text in headers().values():
        text = re.sub(r"//[^\n]*|/\*.*?\*/", "", text, flags=re.S)
        text = re.sub(r"^\s*#(?:[^\n]*\\\n)*[^\n]*", "", text, flags=re.M)
        text = re.sub(r'"(?:\\.|[^"\\])*"', '""', text)
        scope, depth, begin = [], 0, 0  # depth: braces other than those of namespaces
        for i, c in enumerate(text):
            if c not in "{};":
                continue
            piece = text[begin:i].strip()
            if depth == 0 and c == "{" and (match := re.search(r"\bnamespace\s+([\w:]*)\s*$", piece)):
                scope.append(match[1])
                begin = i + 1
                continue
            if depth == 0 and piece and c in "{;":
                _statement(piece, found["::".join(scope)])
            if c == "{":
                depth += 1
            elif c == "}":
                if depth == 0:
                    scope.pop()
                else:
                    depth -= 1
            begin = i + 1
    return found
