"""Small programs in the style of public repositories, with Strata in torch's place; the losses are PyTorch 2.15's."""

import json
import pathlib
import subprocess
import sys

RUN = pathlib.Path(__file__).parent / "programs" / "run.py"


def test_programs_give_the_losses_of_pytorch(tmp_path):
    results = tmp_path / "results.json"
    command = [sys.executable, "-m", "strata.torch", str(RUN), "--json", str(results)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=600)
    table = json.loads(results.read_text())
    assert done.returncode == 0, "\n".join(f"{name}: {row[0]}" for name, row in table.items() if row[0] != "passes")
    assert len(table) >= 100 and set(table) == set(json.loads((RUN.parent / "losses.json").read_text()))
