"""Writes the tables of docs/internals/ecosystem.md from the results of run.py --json and compare_models.py --json.

python tests/packages/report.py packages.json models.json
"""

import json
import pathlib
import re
import sys

PAGE = pathlib.Path(__file__).parents[2] / "docs" / "internals" / "ecosystem.md"


def packages(rows):
    lines = ["| package | version | result |", "|---|---|---|"]
    lines += [f"| {name} | {row['version'] or '-'} | {row['result']} |" for name, row in rows.items()]
    passed = sum(row["result"] == "passes" for row in rows.values())
    return f"{passed} of {len(rows)} programs pass.\n\n" + "\n".join(lines)


def models(rows):
    lines = ["| model | outputs | gradients | agrees |", "|---|---|---|---|"]
    for name, row in rows.items():
        if "error" in row:
            lines.append(f"| {name} | {row['error']} | | no |")
        else:
            lines.append(
                f"| {name} | {row['outputs']:.1e} | {row['gradients']:.1e} | {'yes' if row['same'] else 'no'} |"
            )
    same = sum(row["same"] for row in rows.values())
    return f"{same} of {len(rows)} models agree.\n\n" + "\n".join(lines)


def main(package_results, model_results):
    text = PAGE.read_text()
    for name, made in (
        ("packages", packages(json.loads(pathlib.Path(package_results).read_text()))),
        ("models", models(json.loads(pathlib.Path(model_results).read_text()))),
    ):
        begin, end = f"<!-- {name}: begin -->", f"<!-- {name}: end -->"
        text = re.sub(f"{begin}.*?{end}", lambda _, m=made, b=begin, e=end: f"{b}\n{m}\n{e}", text, flags=re.DOTALL)
    PAGE.write_text(text)


if __name__ == "__main__":
    main(*sys.argv[1:])
