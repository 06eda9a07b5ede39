"""Records idioms.json with PyTorch, where it is installed: python tests/compat/record.py"""

import json
import pathlib
import subprocess
import sys
import tempfile

HERE = pathlib.Path(__file__).parent
sys.path.insert(0, str(HERE))

from idioms import GROUPS  # noqa: E402


def main():
    idioms = [line for group in GROUPS.values() for line in group]
    with tempfile.NamedTemporaryFile("w", suffix=".json") as f:
        json.dump(idioms, f)
        f.flush()
        done = subprocess.run(
            [sys.executable, HERE / "run_idioms.py", f.name], capture_output=True, text=True, check=True
        )
    results = json.loads(done.stdout.splitlines()[-1])
    (HERE / "idioms.json").write_text(json.dumps(results, indent=0) + "\n")
    print(len(results), "idioms recorded")


if __name__ == "__main__":
    main()
