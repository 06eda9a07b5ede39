"""Calls every op, method, function, module and optimizer with hostile arguments, in forked children with limits.

    python tests/attack/calls.py [--calls 20000] [--seed 1] [--call N] [--only REGEX] [--device cpu|vgpu|meta|all] [--jobs 2]

A call is identified by its seed and number: `--seed S --call N` repeats it alone and shows its arguments. A finding is a crash, a hang, a SystemError, a
message of the C++ library, or a lost exception of the caller's own objects. Run it with STRATA_GUARD_PAGES=end
(the default here): each tensor's memory then ends at a protected page."""

import argparse
import contextlib
import os
import pathlib
import random
import re
import sys
import tempfile
import warnings

os.environ.setdefault("STRATA_GUARD_PAGES", "end")
sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))

import children
import hostile
import strata
import surface

# Messages of the C++ library or of the interpreter's own checks: users must not see them.
FOREIGN = re.compile(
    r"std::|_M_|basic_string|__n \(which|bad_alloc|stoi|stol|stod|vector::|map::at|bad_any|bad_optional|bad_function|terminate called|with an exception set|without setting an exception"
)
BATCH = 200
VGPU_BYTES = 2**24  # takes the virtual GPU a second or two; it processes about a million elements a second


def device_of(number, wanted):
    """Whole batches run on one device: the virtual GPU is opened only where it is used."""
    if wanted != "all":
        return wanted
    return {7: "vgpu", 3: "meta"}.get(number // BATCH % 8, "cpu")


def chosen(targets, seed, number, wanted="all"):
    rng = random.Random(f"{seed}:{number}")
    name, draw = rng.choice(targets)
    return rng, name, draw, device_of(number, wanted)


def looked_at(result, rng):
    """Uses the result of a call: reads, prints, differentiates it."""
    for t in surface.records.tensors(result if isinstance(result, (tuple, list, dict)) else [result])[:4]:
        repr(t)
        if t.numel() > 100_000:
            continue
        if t.is_meta:  # reading it raises; its gradient does not
            if t.requires_grad:
                t.sum().backward()
            continue
        if t.requires_grad and rng.random() < 0.5:
            t.sum().backward()
        elif t.dtype.is_floating_point:
            t.to(strata.float64).sum().item()
        else:
            t.tolist()


def attempt(call, rng):
    """Makes the call; yields findings about its outcome."""
    hostile.Raised.count = 0
    ended = None
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            result = call()
            if hostile.Raised.count == 0:
                looked_at(result, rng)
    except hostile.Interrupt:
        return
    except KeyboardInterrupt:  # it took long, and stopped when it was interrupted
        return
    except SystemError as e:
        yield f"SystemError: {e}"
        return
    except BaseException as e:
        ended = e
        try:
            text = str(e)
        except BaseException:  # of a hostile object in the message, such as the key of a KeyError
            return
        if FOREIGN.search(text):
            yield f"{type(e).__name__} with a foreign text: {text[:200]!r}"
    if hostile.Raised.count and interrupts_must_pass(ended):
        yield f"an exception of the caller's object got lost; the call ended with {type(ended).__name__ if ended else 'a result'}: {str(ended)[:200]!r}"


def interrupts_must_pass(ended):
    """A chain that still shows the Interrupt counts as passed on."""
    if isinstance(ended, AttributeError):  # Python drops what a name raises while it writes this error's text
        return False
    while ended is not None:
        if isinstance(ended, hostile.Interrupt):
            return False
        ended = ended.__cause__ or ended.__context__
    return True


def restore():
    """Resets global settings that a call may have changed."""
    strata.set_default_dtype(strata.float32)
    strata.set_default_device("cpu")
    strata.set_grad_enabled(True)
    strata.autograd.set_detect_anomaly(False)
    strata.set_num_threads(2)
    # Under a sanitizer the process itself has no limit: see children.limit_memory.
    strata.set_memory_limit(children.MEMORY if children.SANITIZED else 0)
    strata.set_printoptions(profile="default")
    with contextlib.suppress(Exception):  # an error of the last call's kernels is raised by the next wait
        strata.vgpu.synchronize()


def one(targets, seed, number, device, show=False):
    rng, name, draw, where = chosen(targets, seed, number, device)
    restore()
    strata.manual_seed(number)
    try:
        call = draw(rng, where)
    except hostile.Interrupt:
        return
    if show:
        arguments = {
            k: v
            for k, v in zip(call.__code__.co_freevars, (c.cell_contents for c in call.__closure__ or ()), strict=True)
        }
        print(f"{name} on {where}")
        for key, value in arguments.items():
            try:
                print(f"  {key} = {value!r}"[:2000], flush=True)
            except BaseException as e:
                print(f"  {key} = <{type(value).__name__}, whose repr raises {type(e).__name__}>", flush=True)
    for finding in attempt(call, rng):
        yield f"{name}: {finding}"


def run(targets, seed, calls, device="all", jobs=2, progress=None, first=0):
    """Makes the calls in children with a separate folder; returns (number, finding) pairs."""

    with tempfile.TemporaryDirectory() as folder:

        def prepare(number):
            os.chdir(folder)
            if device_of(number, device) == "vgpu":
                strata.zeros(1, device="vgpu")  # reserves its addresses, which exceed the limit of a child
                strata.vgpu.set_per_process_memory_fraction(VGPU_BYTES / 2**34)

        return children.run(
            lambda n: one(targets, seed, n, device), calls, folder, jobs, BATCH, progress, first, prepare
        )


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--calls", type=int, default=20000)
    parser.add_argument("--first", type=int, default=0, help="number of the first call")
    parser.add_argument("--seed", default="1", help="any text; 'fresh' draws one")
    parser.add_argument("--call", type=int, help="make this call alone, in this process, and show it")
    parser.add_argument(
        "--only", default="", help="regular expression over the names of targets; changes what the numbers mean"
    )
    parser.add_argument("--device", default="all", choices=("cpu", "vgpu", "meta", "all"))
    parser.add_argument("--jobs", type=int, default=os.cpu_count())
    options = parser.parse_args()
    seed = str(random.SystemRandom().randrange(10**9)) if options.seed == "fresh" else options.seed
    targets = [t for t in surface.targets() if re.search(options.only, t[0])]
    if options.call is not None:
        found = list(one(targets, seed, options.call, options.device, show=True))
        print("\n".join(found) or "nothing wrong")
        return 1 if found else 0

    def progress(done, findings):
        if sys.stderr.isatty():
            print(f"\r{done}/{options.calls} calls, {findings} findings ", end="", file=sys.stderr, flush=True)

    found = run(targets, seed, options.calls, options.device, options.jobs, progress, options.first)
    for number, what in found:
        print(
            f"call {number}: {what if ': ' in what and what.split(': ')[0] in dict(targets) else chosen(targets, seed, number, options.device)[1] + ': ' + what}"
        )
    print(f"{options.calls} calls on {len(targets)} targets, seed {seed}: {len(found)} findings")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
