"""Differences to PyTorch that are meant. Each has its reason in docs/usage/differences.md."""

import re

# (pattern over the line, pattern over the finding, heading in differences.md)
ACCEPTED = ()


def reason(line, finding):
    for in_line, in_finding, why in ACCEPTED:
        if re.search(in_line, line) and re.search(in_finding, finding):
            return why
    return None
