"""Replays the idioms of PyTorch programs with Strata in torch's place; the expected texts are PyTorch 2.15's."""

import json
import math
import pathlib
import re
import subprocess
import sys

import pytest

HERE = pathlib.Path(__file__).parent
EXPECTED = json.loads((HERE / "idioms.json").read_text())
FLOOR = 0.95  # of the idioms must behave as in PyTorch

# Idioms whose result differs on purpose, with the reason.
_LINEAR = "linear is one op, whose name is in grad_fn"
DIFFERENT = {
    "torch.strided": "layouts are strings",
    "torch.var_mean(torch.tensor([1.0, 2, 3]))": "a tuple with names",
    "m = nn.Linear(2, 2); nn.init.constant_(m.weight, 0.5); nn.init.zeros_(m.bias); m(torch.ones(1, 2))": _LINEAR,
    "m = nn.Linear(2, 2); m.weight.data.fill_(1); m.bias.data.zero_(); m(torch.ones(2))": _LINEAR,
    "o = torch.optim.SGD([nn.Parameter(torch.ones(1))], lr=0.1); o": "steps are always fused: no switches to print",
}

_NUMBER = re.compile(r"[-+]?(?:\d+\.?\d*(?:[eE][-+]?\d+)?|\.\d+)")
_RAISED = re.compile(r"\w*(Error|Exception): ")


def same(got, want):
    """Whether two texts are equal up to rounding in their numbers, or both report an error of one type."""
    if _RAISED.match(want):
        return got.split(":")[0] == want.split(":")[0]
    if " ".join(_NUMBER.sub("#", got).split()) != " ".join(_NUMBER.sub("#", want).split()):
        return False
    pairs = zip(_NUMBER.findall(got), _NUMBER.findall(want), strict=True)
    return all(math.isclose(float(a), float(b), rel_tol=2e-4, abs_tol=2e-4) for a, b in pairs)


@pytest.fixture(scope="module")
def results(tmp_path_factory):
    path = tmp_path_factory.mktemp("idioms") / "idioms.json"
    path.write_text(json.dumps(list(EXPECTED)))
    command = [sys.executable, "-m", "strata.torch", str(HERE / "run_idioms.py"), str(path)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout.splitlines()[-1])


def test_idioms_behave_as_in_pytorch(results):
    failed = {i: (results[i], want) for i, want in EXPECTED.items() if not same(results[i], want)}
    text = "\n".join(f"{i}\n  got:  {got[:300]}\n  want: {want[:300]}" for i, (got, want) in failed.items())
    assert set(failed) <= set(DIFFERENT), f"{len(failed)} of {len(EXPECTED)} differ:\n{text}"
    assert len(EXPECTED) - len(failed) >= FLOOR * len(EXPECTED)


def test_every_exception_is_still_one(results):
    assert {i for i in DIFFERENT if same(results[i], EXPECTED[i])} == set()
