"""Runs code in a separate process, for tests of start-up and exit."""

import os
import subprocess
import sys


def run(code, environment=None, status=0):
    """Runs code in a separate process and returns its output."""
    done = subprocess.run(
        [sys.executable, "-c", code],
        capture_output=True,
        text=True,
        timeout=120,
        env={**os.environ, **(environment or {})},
    )
    assert done.returncode == status, done.stdout + done.stderr
    return done.stdout.strip()
