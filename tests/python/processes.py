"""Code in a process of its own, for tests of what a process does at its beginning and end."""

import os
import subprocess
import sys


def run(code, environment=None, status=0):
    """Runs code in a process of its own and returns what it printed."""
    done = subprocess.run(
        [sys.executable, "-c", code],
        capture_output=True,
        text=True,
        timeout=120,
        env={**os.environ, **(environment or {})},
    )
    assert done.returncode == status, done.stdout + done.stderr
    return done.stdout.strip()
