"""Runs random programs in several executors and compares every variable, gradient and hook after every line.

    python tests/attack/differential.py [--programs 200] [--seed 1] [--program N] [--against torch,vgpu,reference,differences] [--jobs 2] [--accepted]

Executors: `torch` (where PyTorch is installed), `vgpu` (the virtual GPU), `reference` (the plain kernel of each op) and `differences` (gradients beside
finite differences of the program itself). A program is known by its seed and number: `--seed S --program N` shows it and where it went apart. `--accepted` shows also
the differences that accepted.py explains, which are otherwise only counted."""

import argparse
import collections
import contextlib
import importlib.util
import os
import pathlib
import random
import re
import sys
import tempfile
import warnings

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))

import accepted
import children
import examined
import numpy as np
import programs
import strata

# How far two correct results may be apart, relative to the largest value that the tensor holds.
TOLERANCE = {"float64": 1e-8, "float32": 2e-4, "float16": 3e-2, "bfloat16": 2e-1}


class Executor:
    """One module that runs the program's lines, with its own leaves."""

    def __init__(self, name, module, device="cpu", plain=False):
        self.name, self.module, self.device, self.plain = name, module, device, plain
        self.space = {"T": module, "F": module.nn.functional, "D": device, "leaf": self.leaf, "log": [], "leaves": []}
        self.data, self.made = [], {}

    def fresh(self):
        """The same executor before its first line, with the same leaves."""
        other = Executor(self.name, self.module, self.device, self.plain)
        other.data = self.data
        return other

    def leaf(self, i):
        if i not in self.made:
            shape, dtype, wants, numbers = self.data[i]
            t = (
                self.module.tensor(numbers, dtype=getattr(self.module, dtype), device=self.device)
                .reshape(shape)
                .clone()
            )
            self.made[i] = t.requires_grad_() if wants else t
            self.space["leaves"].append(self.made[i])
        return self.made[i]

    def run(self, line):
        """None, or the exception that the line raised."""
        before = strata._C._set_reference_only(True) if self.plain else None
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                exec(line, self.space)
                if self.device == "vgpu":
                    strata.vgpu.synchronize()  # what only a kernel can see is raised where the host waits
        except Exception as e:
            self.settle()
            return e
        finally:
            if self.plain:
                strata._C._set_reference_only(before)

    def settle(self):
        """After a refusal: an error that a kernel found meanwhile belongs to the same line."""
        if self.device == "vgpu":
            with contextlib.suppress(Exception):
                strata.vgpu.synchronize()

    def tensor(self, name):
        return self.space[name]


def facts(t):
    """What users see of a tensor, comparable across modules."""
    if t is None:
        return None
    dtype = str(t.dtype).rsplit(".", 1)[-1]
    plain = t.detach().cpu().clone()  # PyTorch does not resize what numpy() has seen
    if dtype in ("bfloat16", "float16"):
        plain = plain.float()
    return (
        dtype,
        tuple(t.shape),
        bool(t.requires_grad),
        plain.numpy().astype(np.float64) if plain.numel() else np.zeros(tuple(t.shape)),
    )


def difference(a, b, what, tolerance=0.0, least=1.0):
    """A text when two tensors differ in dtype, shape, requires_grad, or in values by more than the tolerance, which is
    relative to the largest value and to `least`."""
    if a is None or b is None:
        return (
            None
            if a is b
            else f"{what}: {'nothing' if a is None else 'a tensor'} beside {'nothing' if b is None else 'a tensor'}"
        )
    for name, x, y in zip(("dtype", "shape", "requires_grad"), a, b, strict=False):
        if x != y:
            return f"{what}: {name} {x} beside {y}"
    x, y = a[3], b[3]
    if x.size == 0:
        return None
    with np.errstate(all="ignore"):
        finite = np.isfinite(x) & np.isfinite(y)
        if (
            not np.array_equal(np.isnan(x), np.isnan(y))
            or not np.array_equal(x[np.isinf(x)], y[np.isinf(x)])
            or not np.array_equal(np.isinf(x), np.isinf(y))
        ):
            return f"{what}: {x.tolist()} beside {y.tolist()}"[:600]
        scale = max(least, np.abs(y[finite]).max(initial=0.0))
        allowed = max(tolerance, TOLERANCE[a[0]]) * scale if a[0] in TOLERANCE else 0.0
        if np.abs(x[finite] - y[finite]).max(initial=0.0) > allowed:
            return f"{what}: {x.tolist()} beside {y.tolist()}"[:600]
    return None


class Difference(str):
    """A text, and the values on both sides where there are any."""

    ours = theirs = None


def compare(ours, theirs, names):
    """Every difference among variables, their gradients and what hooks saw; the first of each tensor."""
    dtypes = {str(ours.tensor(name).dtype).rsplit(".", 1)[-1] for name in names}
    coarsest = max(
        (TOLERANCE[d] for d in dtypes if d in TOLERANCE), default=0.0
    )  # a wide value may come from a narrow one

    def seen(a, b, what, least=1.0):
        a, b = facts(a), facts(b)
        if a and b and a[2] != b[2]:
            yield Difference(f"{what}: requires_grad {a[2]} beside {b[2]}")
            a = (*a[:2], b[2], a[3])
        text = difference(a, b, what, coarsest, least)
        if text:
            text = Difference(text)
            text.ours, text.theirs = (None if x is None else x[3] for x in (a, b))
            yield text

    for name in names:
        a, b = ours.tensor(name), theirs.tensor(name)
        try:
            b.is_leaf  # noqa: B018  PyTorch refuses even this of a part whose neighbour was written to
        except RuntimeError:
            continue
        yield from seen(a, b, name)
        if a.is_leaf != b.is_leaf and a.requires_grad == b.requires_grad:
            yield Difference(f"{name}: is_leaf {a.is_leaf} beside {b.is_leaf}")
        elif a.is_leaf or (a.requires_grad and a.retains_grad):
            yield from seen(a.grad, b.grad, f"{name}.grad")
    for kind in ("log", "grads", "more"):
        a, b = ours.space.get(kind, ()), theirs.space.get(kind, ())
        if len(a) != len(b):
            yield Difference(f"{kind}: {len(a)} entries beside {len(b)}")
            continue
        # A gradient that is a small difference of large ones has their error.
        values = [np.abs(v[np.isfinite(v)]).max(initial=1.0) for v in (facts(y)[3] for y in b if y is not None)]
        for i, (x, y) in enumerate(zip(a, b, strict=True)):
            yield from seen(x, y, f"{kind}[{i}]", max(values, default=1.0))


# What one side has not built is no wrong result.
NOT_BUILT = re.compile(
    r"not implemented|not supported|only supports|not currently supported|unsupported operation|ONLY_|only implemented|does not support|expects? floating|must be floating|no kernel|has no gradient|not differentiable|derivative for|Could not run",
    re.I,
)


def refusal(ours, theirs):
    """A text when only one side refused a line, or when they raised different kinds."""
    if (ours is None) == (theirs is None):
        return None
    raised = ours or theirs
    if NOT_BUILT.search(str(raised)):
        return "skip"
    who = "only we" if ours else "only the other"
    return Difference(
        f"{who} refused it: {type(raised).__name__}: {str(raised).splitlines()[0][:200] if str(raised) else ''}"
    )


def executors_for(names):
    found = []
    for name in names:
        if name == "torch":
            import torch

            torch.set_num_threads(1)
            found.append(Executor("torch", torch))
        elif name == "vgpu":
            found.append(Executor("vgpu", strata, "vgpu"))
        elif name == "reference":
            found.append(Executor("reference", strata, plain=True))
    return found


def run_program(seed, number, against, show=False, meant=None):
    """Writes and runs one program; returns its lines and the finding, or None. An accepted difference ends it and goes into the list `meant`."""
    rng = random.Random(f"{seed}:{number}")
    smooth = "differences" in against and (number % 2 == 0 or len(against) == 1)
    writer = programs.Writer(rng, smooth)
    ours, others = Executor("strata", strata), executors_for([a for a in against if a != "differences"])
    lines = []
    meant = [] if meant is None else meant

    def provide_leaves():
        while len(ours.data) < len(writer.leaves):
            shape, dtype, wants = writer.leaves[len(ours.data)]
            numbers = programs.values(rng, shape, dtype, smooth, len(ours.data) in writer.finite)
            for e in (ours, *others):
                e.data.append((shape, dtype, wants, numbers))

    def judged(line, e, found):
        """The first text that is not accepted. Where all are, the program goes on without this executor."""
        for difference in found:
            text = f"{e.name}: {difference}"
            heading = accepted.reason(text, examined.Program(lines, line, ours, e, difference, compare))
            if heading is None:
                return text
            meant.append(f"{heading}: {text}")
            if e in others:
                others.remove(e)
        return None

    def step(line, new):
        """Runs a line everywhere; a text when they go apart, 'stop' when the program cannot go on, 'refused', or None when it went in."""
        provide_leaves()
        if show:
            print(line, flush=True)
        mine = ours.run(line)
        for e, theirs in [(e, e.run(line)) for e in others]:
            text = refusal(mine, theirs)
            if text == "skip":
                others.remove(e)
            elif text and (text := judged(line, e, [text])):
                return text
        if mine is not None:
            # A refusal may leave a half-done write on one side: then there is nothing to compare.
            return "stop" if any(text for e in others for text in compare(ours, e, writer.names)) else "refused"
        if new:
            if not hasattr(ours.space[new], "dtype"):
                return "stop"
            writer.names.append(new) if new not in writer.names else None
        for e in list(others):
            if text := judged(line, e, compare(ours, e, writer.names)):
                return text
        lines.append(line)
        return None if others or smooth else "stop"

    for line, new in writer.begin():
        if (text := step(line, new)) is not None:
            return lines + [line], text
    for _ in range(rng.randrange(5, 16)):
        line, new = writer.line(ours.tensor)
        text = step(line, new)
        if text == "stop":
            return lines, None
        if text not in (None, "refused"):
            return [*lines, line], text
        if any(ours.tensor(n).numel() > 3000 for n in writer.names):
            break
    for line in writer.end(ours.tensor):
        text = step(line, None)
        if text in ("stop", "refused"):
            return lines, None
        if text:
            return [*lines, line], text
    return lines, differences(ours, lines) if smooth else None


def differences(ours, lines):
    """The gradients of a program beside finite differences along a random direction."""
    if "loss = " not in "".join(lines) or not lines[-1].startswith(("loss.backward", "more", "second", "grads")):
        return None
    leaves = ours.space["leaves"]
    grads = ours.space.get("grads") or [t.grad for t in leaves]
    grads = (
        dict(zip((id(t) for t in leaves if t.requires_grad), grads, strict=True))
        if ours.space.get("grads")
        else {id(t): t.grad for t in leaves}
    )
    rng = np.random.default_rng(5)
    directions = {i: rng.standard_normal(d[0]) for i, d in enumerate(ours.data)}
    upto = next(i for i, line in enumerate(lines) if line.startswith("loss = "))

    def value(step):
        e = Executor("moved", strata)
        for i, (shape, dtype, _, numbers) in enumerate(ours.data):
            moved = (np.asarray(numbers, np.float64).reshape(shape) + step * directions[i]).ravel().tolist()
            e.data.append((shape, dtype, False, moved))
        for line in lines[: upto + 1]:
            error = e.run(line)
            if error is not None:
                return None
        made = [t for n, t in e.space.items() if re.fullmatch(r"v\d+", n) and t.is_floating_point()]
        if any(t.dtype != strata.float64 or t.isnan().any().item() for t in made):
            return None  # rounding hides small steps; what was made of NaN may be finite, and its gradient is not
        return e.space["loss"].item()

    eps = 1e-6
    points = [value(s * eps) for s in (-2, -1, 0, 1, 2)]
    if any(p is None or not np.isfinite(p) for p in points):
        return None
    left, right = (points[2] - points[0]) / (2 * eps), (points[4] - points[2]) / (2 * eps)
    scale = max(1.0, abs(left), abs(right), abs(points[2]))
    if abs(left - right) > 1e-3 * scale:  # a kink or a jump: there is no derivative to compare with
        return None
    want = (points[3] - points[1]) / (2 * eps)
    made = {id(t): i for i, t in ours.made.items()}
    got = sum(float((g.detach().numpy() * directions[made[k]]).sum()) for k, g in grads.items() if g is not None)
    return (
        None if abs(got - want) <= 2e-4 * scale else f"differences: the gradient gives {got}, finite differences {want}"
    )


ACCEPTED = "accepted: "


def one(seed, number, against):
    meant = []
    lines, text = run_program(seed, number, against, meant=meant)
    for finding in [f"{ACCEPTED}{m}" for m in meant] + ([text] if text else []):
        yield f"{finding} :: " + " ;; ".join(lines)


def default_executors():
    return (["torch"] if importlib.util.find_spec("torch") else []) + ["vgpu", "reference", "differences"]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--programs", type=int, default=200)
    parser.add_argument("--first", type=int, default=0)
    parser.add_argument("--seed", default="1", help="any text; 'fresh' draws one")
    parser.add_argument("--program", type=int, help="run this program alone and show it")
    parser.add_argument("--against", default=",".join(default_executors()))
    parser.add_argument("--jobs", type=int, default=os.cpu_count())
    parser.add_argument("--accepted", action="store_true", help="show accepted differences too")
    options = parser.parse_args()
    seed = str(random.SystemRandom().randrange(10**9)) if options.seed == "fresh" else options.seed
    against = options.against.split(",")
    if options.program is not None:
        meant = []
        _, text = run_program(seed, options.program, against, show=True, meant=meant)
        print(text or (f"{ACCEPTED}{meant[0]}" if meant else "the same everywhere"))
        return 1 if text else 0
    if "torch" in against:
        import torch  # noqa: F401  before the fork, so that children do not each load it

    def prepare(_number):
        if "vgpu" in against:
            strata.zeros(1, device="vgpu")  # reserves its addresses before memory is limited

    children.CPU_SECONDS = 20.0  # the first program of a child also translates the kernels of the virtual GPU
    with tempfile.TemporaryDirectory() as folder:
        found = children.run(
            lambda n: one(seed, n, against),
            options.programs,
            folder,
            options.jobs,
            50,
            first=options.first,
            prepare=prepare,
        )
    meant = [f for f in found if f[1].startswith(ACCEPTED)]
    wrong = [f for f in found if not f[1].startswith(ACCEPTED)]
    for number, what in found if options.accepted else wrong:
        head, _, lines = what.partition(" :: ")
        print(f"program {number}: {head}")
        for line in lines.split(" ;; ") if lines else ():
            print(f"    {line}")
    headings = collections.Counter(what[len(ACCEPTED) :].partition(":")[0] for _, what in meant)
    counts = ", ".join(f"{heading} {n}" for heading, n in headings.most_common())
    print(
        f"{options.programs} programs against {options.against}, seed {seed}: {len(wrong)} findings, {len(meant)} accepted"
        + (f": {counts}" if counts else "")
    )
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
