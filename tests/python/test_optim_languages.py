"""The same steps and schedules from C++ and from Python give the same bits."""

import os
import pathlib
import re
import subprocess

import pytest
import strata
from strata import optim
from strata.optim import lr_scheduler

ROOT = pathlib.Path(__file__).parent.parent.parent
BUILD = pathlib.Path(os.environ.get("STRATA_BUILD_DIR", ROOT / "build" / "release"))
STEPS, COUNT, EPOCHS = 7, 75, 25

# Name, options in C++, options in Python.
OPTIMIZERS = [
    ("SGD", ".lr = 0.1, .momentum = 0.9, .dampening = 0.1, .weight_decay = 0.01", dict(lr=0.1, momentum=0.9, dampening=0.1, weight_decay=0.01)),
    ("Adam", ".lr = 0.1, .amsgrad = true", dict(lr=0.1, amsgrad=True)),
    ("AdamW", ".lr = 0.1, .betas = {0.8, 0.95}", dict(lr=0.1, betas=(0.8, 0.95))),
    ("NAdam", ".lr = 0.1", dict(lr=0.1)),
    ("RAdam", ".lr = 0.1", dict(lr=0.1)),
    ("Adamax", ".lr = 0.1", dict(lr=0.1)),
    ("Adagrad", ".lr = 0.1, .initial_accumulator_value = 0.5", dict(lr=0.1, initial_accumulator_value=0.5)),
    ("Adadelta", "", dict()),
    ("RMSprop", ".lr = 0.1, .momentum = 0.9, .centered = true", dict(lr=0.1, momentum=0.9, centered=True)),
    ("ASGD", ".lr = 0.1, .t0 = 2", dict(lr=0.1, t0=2)),
    ("Rprop", ".lr = 0.1", dict(lr=0.1)),
    ("Muon", ".lr = 0.1, .adjust_lr_fn = optim::kMatchRmsAdamw", dict(lr=0.1, adjust_lr_fn="match_rms_adamw")),
]  # fmt: skip
SCHEDULES = [
    ("StepLR", ".step_size = 3, .gamma = 0.5", dict(step_size=3, gamma=0.5)),
    ("MultiStepLR", ".milestones = {2, 5, 5}", dict(milestones=[2, 5, 5])),
    ("ConstantLR", "", dict()),
    ("LinearLR", ".total_iters = 9", dict(total_iters=9)),
    ("ExponentialLR", ".gamma = 0.9", dict(gamma=0.9)),
    ("CosineAnnealingLR", ".T_max = 7, .eta_min = 0.01", dict(T_max=7, eta_min=0.01)),
    ("CosineAnnealingWarmRestarts", ".T_0 = 3, .T_mult = 2", dict(T_0=3, T_mult=2)),
    ("PolynomialLR", ".total_iters = 20, .power = 0.7", dict(total_iters=20, power=0.7)),
    ("OneCycleLR", ".max_lr = {0.7}, .total_steps = 25", dict(max_lr=0.7, total_steps=25)),
    ("CyclicLR", ".base_lr = {0.1}, .max_lr = {0.7}, .step_size_up = 4, .mode = lr_scheduler::CyclicLROptions::kTriangular2",
     dict(base_lr=0.1, max_lr=0.7, step_size_up=4, mode="triangular2")),
]  # fmt: skip

PROGRAM = (
    f"constexpr int kSteps = {STEPS}, kCount = {COUNT}, kEpochs = {EPOCHS};"
    + """
#include <strata/strata.h>
#include <cstdio>
using namespace strata;
namespace lr_scheduler = optim::lr_scheduler;

Tensor parameter() {
  Tensor p = make_tensor(std::vector<int64_t>{5, kCount / 5}, DType::F32);
  for (int i = 0; i < kCount; ++i) p.data<float>()[i] = float(i * 7 % 11 - 5) / 4;
  return p.set_requires_grad();
}
void set_gradient(Tensor p, int t) {
  Tensor g = empty_like(p);
  for (int i = 0; i < kCount; ++i) g.data<float>()[i] = float((i * 5 + t * 3) % 13 - 6) / 8;
  p.set_grad(g);
}
template <class O> void steps(const char* name, O&& opt, Tensor p) {
  for (int t = 0; t < kSteps; ++t) set_gradient(p, t), opt.step();
  std::printf("%s", name);
  for (int i = 0; i < kCount; ++i) std::printf(" %a", double(p.data<float>()[i]));
  std::printf("\\n");
}
template <class S> void rates(const char* name, optim::SGD& opt, S&& schedule) {
  std::printf("%s", name);
  for (int e = 0; e < kEpochs - 1; ++e) std::printf(" %a %a", opt.lr(), opt.option("momentum")), schedule.step();
  std::printf("\\n");
}
Tensor rosenbrock(const Tensor& x) {
  Tensor a = narrow(x, 0, 0, 2), b = narrow(x, 0, 1, 2);
  return sum(square(b - square(a)) * 100 + square(1 - a));
}
int main() {
"""
    + "".join(
        f'  {{ Tensor p = parameter(); steps("{n}", optim::{n}({{p}}, {{{o}}}), p); }}\n' for n, o, _ in OPTIMIZERS
    )
    + "".join(
        f'  {{ optim::SGD opt({{parameter()}}, {{.lr = 0.5, .momentum = 0.9}}); rates("{n}", opt, lr_scheduler::{n}(opt, {{{o}}})); }}\n'
        for n, o, _ in SCHEDULES
    )
    + """
  Tensor x = make_tensor(std::vector<int64_t>{3}, DType::F32);
  x.data<float>()[0] = -1.25, x.data<float>()[1] = 1, x.data<float>()[2] = 0.5;
  x.set_requires_grad();
  optim::LBFGS opt({x}, {.max_iter = 12, .history_size = 4, .strong_wolfe = true});
  for (int t = 0; t < 2; ++t) opt.step([&] { opt.zero_grad(); Tensor loss = rosenbrock(x); loss.backward(); return loss; });
  std::printf("LBFGS %a %a %a\\n", double(x.data<float>()[0]), double(x.data<float>()[1]), double(x.data<float>()[2]));
}
"""
)


@pytest.fixture(scope="module")
def from_cpp(tmp_path_factory):
    """What the program printed: name -> numbers."""
    folder = tmp_path_factory.mktemp("languages")
    (folder / "steps.cpp").write_text(PROGRAM)
    found = re.search(r"^CMAKE_CXX_COMPILER:\w+=(.*)$", (BUILD / "CMakeCache.txt").read_text(), re.M)
    paths = [f"-I{p}" for p in (ROOT / "include", ROOT / "src", BUILD / "gen")]
    link = [f"-L{BUILD}/lib", "-lstrata", f"-Wl,-rpath,{BUILD}/lib"]
    command = [found[1], "-std=c++20", "-DFMT_HEADER_ONLY", *paths, folder / "steps.cpp", "-o", folder / "steps", *link]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    lines = subprocess.run([folder / "steps"], capture_output=True, text=True, check=True).stdout.splitlines()
    return {words[0]: [float.fromhex(w) for w in words[1:]] for words in map(str.split, lines)}


def parameter():
    return strata.tensor([(i * 7 % 11 - 5) / 4 for i in range(COUNT)]).reshape(5, -1).requires_grad_()


@pytest.mark.parametrize("name, options", [(n, o) for n, _, o in OPTIMIZERS], ids=[n for n, *_ in OPTIMIZERS])
def test_optimizers_agree(name, options, from_cpp):
    p = parameter()
    optimizer = getattr(optim, name)([p], **options)
    for t in range(STEPS):
        p.grad = strata.tensor([((i * 5 + t * 3) % 13 - 6) / 8 for i in range(COUNT)]).reshape(5, -1)
        optimizer.step()
    assert p.detach().flatten().tolist() == from_cpp[name]


@pytest.mark.parametrize("name, options", [(n, o) for n, _, o in SCHEDULES], ids=[n for n, *_ in SCHEDULES])
def test_schedules_agree(name, options, from_cpp):
    optimizer = optim.SGD([parameter()], lr=0.5, momentum=0.9)
    schedule = getattr(lr_scheduler, name)(optimizer, **options)
    seen = []
    for _ in range(EPOCHS - 1):
        seen += [optimizer.param_groups[0]["lr"], optimizer.param_groups[0]["momentum"]]
        optimizer.step()
        schedule.step()
    assert seen == from_cpp[name]


def test_lbfgs_agrees(from_cpp):
    x = strata.tensor([-1.25, 1.0, 0.5], requires_grad=True)
    optimizer = optim.LBFGS([x], max_iter=12, history_size=4, line_search_fn="strong_wolfe")

    def closure():
        optimizer.zero_grad()
        a, b = x[:2], x[1:]
        loss = ((b - a.square()).square() * 100 + (1 - a).square()).sum()
        loss.backward()
        return loss

    for _ in range(2):
        optimizer.step(closure)
    assert x.tolist() == from_cpp["LBFGS"]
