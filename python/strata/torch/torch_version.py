"""TorchVersion: a version as a text that compares by its numbers."""

import re


def _numbers(version):
    """(2, 15, 0) of "2.15.0+strata", and of tuples; a release is after its release candidates."""
    if isinstance(version, str):
        release = re.match(r"v?(\d+(?:\.\d+)*)(.*)", version.strip())
        if release is None:
            raise ValueError(f"Invalid version: {version!r}")
        parts = [int(p) for p in release[1].split(".")]
        before = bool(re.match(r"[-_.]?(a|b|c|rc|alpha|beta|pre|dev)", release[2]))
    else:
        parts, before = [int(p) for p in version], False
    while len(parts) > 1 and parts[-1] == 0:
        parts.pop()
    return parts, not before


class TorchVersion(str):
    """A version: TorchVersion("2.15.0") > "2.2", and >= (2, 1)."""

    def __lt__(self, other):
        return _numbers(self) < _numbers(other)

    def __le__(self, other):
        return _numbers(self) <= _numbers(other)

    def __gt__(self, other):
        return _numbers(self) > _numbers(other)

    def __ge__(self, other):
        return _numbers(self) >= _numbers(other)

    def __eq__(self, other):
        if isinstance(other, str) and str.__eq__(self, other):
            return True
        try:
            return _numbers(self) == _numbers(other)
        except (TypeError, ValueError):
            return False

    def __ne__(self, other):
        return not self == other

    __hash__ = str.__hash__
