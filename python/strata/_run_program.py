"""Runs another program in this process, as `python` would: a script, -m module or -c code."""

import os
import runpy
import sys
import types


def run_program(arguments, name, usage, install):
    """The exit status. `install` puts a stand-in among the modules; `name` and `usage` are those of messages."""
    if not arguments or arguments[0] in ("-h", "--help"):
        print(usage)
        return 0 if arguments else 1
    install()
    kind, rest = (arguments[0], arguments[1:]) if arguments[0] in ("-m", "-c") else ("", arguments)
    if not rest:
        print(usage, file=sys.stderr)
        return 1
    sys.argv = rest
    if kind == "-m":
        sys.path[0] = os.getcwd()
        runpy.run_module(rest[0], run_name="__main__", alter_sys=True)
    elif kind == "-c":
        sys.argv = ["-c", *rest[1:]]
        sys.path[0] = ""
        exec(compile(rest[0], "<string>", "exec"), {"__name__": "__main__"})
    elif not os.path.exists(rest[0]):
        print(f"{name}: there is no file '{rest[0]}'", file=sys.stderr)
        return 2
    else:
        sys.path[0] = os.path.dirname(os.path.abspath(rest[0]))
        _run_file(rest[0])
    return 0


def _run_file(path):
    """As `python path`: the module __main__ is the program's, so that what it pickles can be found again."""
    main_module = types.ModuleType("__main__")
    main_module.__file__ = path
    main_module.__builtins__ = __builtins__
    with open(path, "rb") as f:
        code = compile(f.read(), path, "exec")
    sys.modules["__main__"] = main_module
    exec(code, main_module.__dict__)
