"""Runs random programs plainly, compiled and replayed, and compares everything that they leave: results, gradients, written arguments.

    python tests/attack/compiled.py [--programs 300] [--seed 1] [--program N] [--device cpu,vgpu] [--check]

The programs are those of programs.py, with views, writes, hooks, gradients, and draws of random numbers. A program is known by its seed and number:
`--seed S --program N` shows it. Each is called several times, with other values, so that it is followed, audited and replayed. `graph` is a capture, where one is possible. With --check
(STRATA_COMPILE=check), each compiled call runs both ways, and gradients of the results are compared too."""

import argparse
import pathlib
import random
import sys
import warnings

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))

import programs
import strata
from differential import Executor
from strata import _C, export

DRAWS = (
    "{0} + T.rand({0}.shape, device=D)",
    "{0}.double() * T.randn({0}.shape, dtype=T.float64, device=D)",
    "F.dropout({0}.double(), 0.5)",
    "T.randint(0, 4, {0}.shape, device=D) + {0}",
    "T.bernoulli({0}.double().sigmoid())",
    "{0}.double().clone().uniform_(-1, 1)",
    "T.randperm(4, device=D).double()",
)
CALLS = 5


class Writer(programs.Writer):
    """Writes draws too."""

    def line(self, tensor_of):
        if self.rng.random() > 0.1:
            return super().line(tensor_of)
        name, new = self.pick(tensor_of)[0], self.new_name()
        self.exact[new] = False
        return f"{new} = " + self.rng.choice(DRAWS).format(name), new


def written(seed, number, device):
    """The lines of a program that run, its leaves, and the names of its variables."""
    rng = random.Random(f"{seed}:{number}")
    writer, executor, lines = Writer(rng), Executor("strata", strata, device), []

    def goes_in(line, new):
        while len(executor.data) < len(writer.leaves):
            shape, dtype, wants = writer.leaves[len(executor.data)]
            executor.data.append((shape, dtype, wants, programs.values(rng, shape, dtype)))
        if executor.run(line) is not None or (new and not hasattr(executor.space[new], "dtype")):
            return False
        if new and new not in writer.names:
            writer.names.append(new)
        lines.append(line)
        return True

    for line, new in writer.begin():
        goes_in(line, new)
    for _ in range(rng.randrange(4, 14)):
        if not goes_in(*writer.line(executor.tensor)) and rng.random() < 0.5:
            break  # a refused line may have written something
        if any(executor.tensor(n).numel() > 3000 for n in writer.names):
            break
    for line in writer.end(executor.tensor) if rng.random() < 0.6 else ():
        if not goes_in(line, None):
            break
    return lines, executor.data, [n for n in writer.names if isinstance(executor.space.get(n), strata.Tensor)]


class Program:
    def __init__(self, seed, number, device):
        self.lines, self.data, self.names = written(seed, number, device)
        self.code = compile("\n".join(self.lines), f"program {number}", "exec")
        self.device, self.key = device, f"{seed}:{number}"

    def leaves(self, call):
        """Other values in each call, of the same shapes."""
        rng = random.Random(f"{self.key}:{call}")
        made = []
        for shape, dtype, wants, numbers in self.data:
            numbers = numbers if call == 0 else programs.values(rng, shape, dtype)
            t = strata.tensor(numbers, dtype=getattr(strata, dtype), device=self.device).reshape(shape).clone()
            made.append(t.requires_grad_() if wants else t)
        return made

    def function(self):
        """Takes the leaves; returns the variables, and what hooks and derivatives have left."""
        code, names, device = self.code, self.names, self.device

        def f(*leaves):
            space = {
                "T": strata,
                "F": strata.nn.functional,
                "D": device,
                "log": [],
                "leaves": leaves,
                "leaf": leaves.__getitem__,
            }
            exec(code, space)
            found = [space.get(name) for name in (*names, "loss", "second")] + space["log"]
            for name in ("grads", "more"):
                found.extend(space.get(name, ()))
            return tuple(t for t in found if isinstance(t, strata.Tensor))

        return f


def left_by(f, leaves):
    """What a call leaves, as text; also the kind of its error."""
    strata.manual_seed(5)
    try:
        results = f(*leaves)
    except Exception as error:
        if "STRATA_COMPILE=check" in str(error):
            return [str(error)]
        return ["its results depend on values" if "captured with" in str(error) else f"raises {type(error).__name__}"]
    shown = [("result", k, t) for k, t in enumerate(results)]
    shown += [("argument", k, t) for k, t in enumerate(leaves)]
    shown += [("gradient", k, t.grad) for k, t in enumerate(leaves) if t.is_leaf and t.grad is not None]
    return [
        f"{what} {k}: {t.dtype} {tuple(t.shape)} {t.requires_grad} {t.detach().tolist()}" for what, k, t in shown
    ] + [f"next draw {strata.rand(1).item()}"]


def as_graph(f, leaves):
    """The program as a graph that takes the values of its leaves; None if it cannot be captured."""

    def program(*values):
        return f(*(v.detach().requires_grad_(t.requires_grad) for v, t in zip(values, leaves, strict=True)))

    try:
        graph = export.Graph.capture(program, [t.detach().clone() for t in leaves], composites=False)
    except (RuntimeError, NotImplementedError):
        return None
    return lambda *given: graph.run([t.detach().clone() for t in given])


def finding(seed, number, device, counts):
    """Where a compiled form differs from the plain program, or None."""
    program = Program(seed, number, device)
    f = program.function()
    deferred, replayed = strata.compile(program.function()), strata.compile(program.function(), replay=True)
    for call in range(CALLS):
        want = left_by(f, program.leaves(call))
        for name, form in (("compiled", deferred), ("replayed", replayed)):
            got = left_by(form, program.leaves(call))
            if got != want:
                changes = [f"  {a}\n  {b}" for a, b in zip(want, got, strict=False) if a != b] or ["  another number"]
                return program, f"call {call}, {name}:\n" + changes[0]
    counts["replayed calls"] += sum(g["replayed"] for g in replayed.variants().graphs)
    strata.manual_seed(5)
    if (graph := as_graph(f, program.leaves(0))) is not None:
        counts["captured"] += 1
        want = [line for line in left_by(f, program.leaves(1)) if not line.startswith(("argument", "gradient"))]
        got = [line for line in left_by(graph, program.leaves(1)) if not line.startswith(("argument", "gradient"))]
        values = [[line.replace(" True ", " False ") for line in lines] for lines in (want, got)]
        may_differ = want[0].startswith("raises") or got[0].startswith("its results")
        if values[0] != values[1] and not may_differ:
            changes = [f"  {a}\n  {b}" for a, b in zip(*values, strict=False) if a != b] or ["  another number"]
            return program, "graph:\n" + changes[0]
    return None


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--programs", type=int, default=300)
    parser.add_argument("--seed", default="1")
    parser.add_argument("--program", type=int, help="only this one, and show it")
    parser.add_argument("--device", default="cpu,vgpu")
    parser.add_argument("--check", action="store_true")
    options = parser.parse_args()
    _C._check_compiled(options.check)
    warnings.simplefilter("ignore")
    _C._set_least_deferred(1)
    _C._set_fused_kernels(False)  # a kernel for each of thousands of groups would take hours to compile
    devices, failed = options.device.split(","), 0
    counts = {"replayed calls": 0, "captured": 0}
    numbers = range(options.programs) if options.program is None else [options.program]
    for number in numbers:
        for device in devices:
            if (found := finding(options.seed, number, device, counts)) is not None:
                failed += 1
                program, text = found
                print(f"--seed {options.seed} --program {number} --device {device}: {text}")
                if failed == 1 or options.program is not None:
                    print("\n".join("    " + line for line in program.lines), flush=True)
            elif options.program is not None:
                print("\n".join(Program(options.seed, number, device).lines))
    done = ", ".join(f"{n} {what}" for what, n in counts.items())
    print(f"{len(numbers)} programs on {options.device}, seed {options.seed}: {failed} differ; {done}")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
