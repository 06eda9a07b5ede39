"""`strata explain --compile model.py:Net --input 'f(8,3,32,32)'`: explains a compiled function or network. The command runs this as
python3 -m strata._explain_command."""

import argparse
import importlib.util
import pathlib
import sys

EXAMPLE = "Example: strata explain --compile model.py:Net --input 'f(8,3,32,32)' --html net.html"


class UserError(Exception):
    pass


def loaded(target):
    """The object that `path.py:name` names; a class or a function without parameters is called."""
    path, _, name = target.rpartition(":")
    if not path or not name:
        raise UserError(f"--compile {target!r}: expected a file and a name in it, such as model.py:Net")
    file = pathlib.Path(path)
    if not file.is_file():
        raise UserError(f"--compile {target!r}: there is no file {path!r}")
    spec = importlib.util.spec_from_file_location(file.stem, file)
    if spec is None or spec.loader is None:
        raise UserError(f"--compile {target!r}: {path!r} is no Python file; its name must end in .py")
    module = importlib.util.module_from_spec(spec)
    sys.modules[file.stem] = module
    sys.path.insert(0, str(file.resolve().parent))
    spec.loader.exec_module(module)
    found = module
    for part in name.split("."):
        if not hasattr(found, part):
            names = ", ".join(n for n in vars(module) if not n.startswith("_")) or "nothing"
            raise UserError(f"--compile {target!r}: {path!r} has no {name!r}; it defines {names}")
        found = getattr(found, part)
    return found() if isinstance(found, type) else found


def inputs_of(texts, strata, device):
    from . import _C

    cat = next(r["index"] for r in _C._records() if r["name"] == "cat" and not r["overload"])
    tensors = []
    for text in texts:
        try:
            (made,) = (
                v for v in _C._sample(cat, f"[{text}]", strata.float32, 0).values() if isinstance(v, list | tuple)
            )
        except (ValueError, TypeError, RuntimeError) as error:
            raise UserError(
                f"--input {text!r}: {error}. Expected f(8,3) for normal numbers, i10(8,3) for integers below 10, b(8) for "
                "booleans, t[1, 2] for these integers"
            ) from None
        tensors += [t.detach().to(device) for t in made]
    return tensors


def written(path, text):
    try:
        pathlib.Path(path).write_text(text, encoding="utf-8")
    except OSError as error:
        raise OSError(f"cannot write {path!r}: {error.strerror}") from error


def run(options):
    import strata

    function, made = loaded(options.compile), inputs_of(options.input, strata, options.device)
    if not callable(function):
        raise UserError(f"--compile {options.compile!r} is {type(function).__name__}; expected a module or a function")
    if isinstance(function, strata.nn.Module):
        function = function.to(options.device)
        if not options.backward:
            function.eval()

    def call(*tensors):
        with strata.set_grad_enabled(options.backward):
            result = function(*tensors)
        if not options.backward:
            return result
        found = [result] if isinstance(result, strata.Tensor) else [t for t in result if isinstance(t, strata.Tensor)]
        roots = [t for t in found if t.requires_grad and t.is_floating_point()]
        if not roots:
            raise UserError("--backward: no result requires a gradient")
        sum((t.sum() for t in roots[1:]), roots[0].sum()).backward()
        return None

    call.__wrapped__ = function  # whose modules are named
    call.__qualname__ = options.compile.rpartition(":")[2]
    compiled = strata.compile(call, replay=options.replay)
    if not hasattr(compiled, "explain"):
        raise UserError("STRATA_COMPILE=0 is set, so nothing is compiled")
    for _ in range(max(options.calls, 1) if options.replay else 1):  # the first call also fills caches
        compiled(*made)
    explanation = compiled.explain(*made)
    if options.html:
        written(options.html, explanation.html())
        if not options.json:
            print(f"written: {options.html}")
    if options.json:
        print(explanation.json())
    elif not options.html:
        print(explanation.report())


def main(arguments=None):
    parser = argparse.ArgumentParser(
        prog="strata explain", description="Explains a compiled function or network.", epilog=EXAMPLE
    )
    parser.add_argument(
        "--compile", required=True, metavar="FILE:NAME", help="a module, a class of modules, or a function"
    )
    parser.add_argument(
        "--input", action="append", default=[], metavar="SAMPLE", help="such as f(8,3,32,32); once per argument"
    )
    parser.add_argument(
        "--backward", action="store_true", help="training mode, with the gradient of the sum of all results"
    )
    parser.add_argument("--replay", action="store_true", help="compile with replay=True")
    parser.add_argument("--calls", type=int, default=4, help="calls before the one that is explained, with --replay")
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--json", action="store_true", help="machine-readable output")
    parser.add_argument("--html", metavar="FILE", help="write a page")
    options = parser.parse_args(arguments)
    try:
        run(options)
    except UserError as error:
        sys.stderr.write(f"strata: {error}\n")
        return 1
    except OSError as error:
        sys.stderr.write(f"strata: {error}\n")
        return 2
    except BrokenPipeError:
        return 2
    except Exception as error:
        sys.stderr.write(f"strata: {options.compile} raised {type(error).__name__}: {error}\n")
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
