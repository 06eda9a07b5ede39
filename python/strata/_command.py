"""What the subcommands of `strata` that run in Python share: named objects, sample tensors, and errors as messages."""

import importlib.util
import pathlib
import sys


class UserError(Exception):
    pass


def loaded(target, option):
    """The object that `path.py:name` names; a class is called."""
    path, _, name = target.rpartition(":")
    if not path or not name:
        raise UserError(f"{option}{target!r}: expected a file and a name in it, such as model.py:Net")
    file = pathlib.Path(path)
    if not file.is_file():
        raise UserError(f"{option}{target!r}: there is no file {path!r}")
    spec = importlib.util.spec_from_file_location(file.stem, file)
    if spec is None or spec.loader is None:
        raise UserError(f"{option}{target!r}: {path!r} is no Python file; its name must end in .py")
    module = importlib.util.module_from_spec(spec)
    sys.modules[file.stem] = module
    sys.path.insert(0, str(file.resolve().parent))
    spec.loader.exec_module(module)
    found = module
    for part in name.split("."):
        if not hasattr(found, part):
            names = ", ".join(n for n in vars(module) if not n.startswith("_")) or "nothing"
            raise UserError(f"{option}{target!r}: {path!r} has no {name!r}; it defines {names}")
        found = getattr(found, part)
    return found() if isinstance(found, type) else found


def inputs_of(texts, strata, options, name="--input "):
    """The tensors of texts such as f(8,3)."""
    from . import _C

    cat = next(r["index"] for r in _C._records() if r["name"] == "cat" and not r["overload"])
    dtype = getattr(strata, options.dtype, None)
    if not isinstance(dtype, strata.dtype):
        raise UserError(f"--dtype {options.dtype}: there is no such dtype")
    tensors = []
    for text in texts:
        try:
            (made,) = (v for v in _C._sample(cat, f"[{text}]", dtype, 0).values() if isinstance(v, list | tuple))
        except (ValueError, TypeError, RuntimeError) as error:
            raise UserError(
                f"{name}{text!r}: {error}. Expected f(8,3) for normal numbers, i10(8,3) for integers below 10, b(8) for "
                "booleans, t[1, 2] for these integers"
            ) from None
        tensors += [t.detach().to(options.device) for t in made]
    return tensors


def written(path, text):
    try:
        pathlib.Path(path).write_text(text, encoding="utf-8")
    except OSError as error:
        raise OSError(f"cannot write {path!r}: {error.strerror}") from error


def finished(run, what):
    """Calls `run`, and returns the exit status: errors become messages, with `what` for those of the user's program."""
    try:
        run()
    except UserError as error:
        sys.stderr.write(f"strata: {error}\n")
        return 1
    except OSError as error:
        sys.stderr.write(f"strata: {error}\n")
        return 2
    except Exception as error:
        sys.stderr.write(f"strata: {what} raised {type(error).__name__}: {error}\n")
        return 1
    return 0
