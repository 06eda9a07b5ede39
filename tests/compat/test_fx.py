"""fx_programs.py prints with Strata what it prints with PyTorch."""

import pathlib
import subprocess
import sys

HERE = pathlib.Path(__file__).parent


def test_fx_programs_print_the_same_as_with_pytorch():
    command = [sys.executable, "-W", "ignore", "-m", "strata.torch", str(HERE / "fx_programs.py")]
    done = subprocess.run(command, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr
    expected = (HERE / "fx_programs.txt").read_text()
    sections = [text.split("=== ")[1:] for text in (expected, done.stdout)]
    for theirs, ours in zip(*sections, strict=True):
        assert ours == theirs
