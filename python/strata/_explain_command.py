"""What `strata explain` leaves to Python: expressions, networks layer by layer, and compiled functions. The command runs this as
python3 -m strata._explain_command."""

import argparse
import ast
import re
import sys

from strata._command import UserError, finished, inputs_of, loaded, written

EXAMPLE = "Example: strata explain --compile model.py:Net --input 'f(8,3,32,32)' --html net.html"


def shown(explanation, options, text):
    """Writes or prints an explanation."""
    if options.html:
        written(options.html, explanation.html())
        if not options.json:
            print(f"written: {options.html}")
    if options.json:
        print(explanation.json())
    elif not options.html:
        print(text())


def network_of(target, option, options):
    """The module or function that was named, and what calls it and maybe its gradient."""
    import strata

    function = loaded(target, option)
    if not callable(function):
        raise UserError(f"{option}{target!r} is {type(function).__name__}; expected a module or a function")
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
    call.__qualname__ = target.rpartition(":")[2]
    return function, call


def explain_compiled(options):
    import strata

    made = inputs_of(options.input, strata, options)
    _, call = network_of(options.compile, "--compile ", options)
    compiled = strata.compile(call, replay=options.replay)
    if not hasattr(compiled, "explain"):
        raise UserError("STRATA_COMPILE=0 is set, so nothing is compiled")
    for _ in range(max(options.calls, 1) if options.replay else 1):  # the first call also fills caches
        compiled(*made)
    explanation = compiled.explain(*made)
    shown(explanation, options, explanation.report)


def explain_network(options):
    import strata

    from ._explain_network import explain_layers

    made = inputs_of(options.input, strata, options)
    function, call = network_of(options.network, "", options)
    if not isinstance(function, strata.nn.Module):
        raise UserError(f"{options.network!r} is no module; write an expression, or use --compile for functions")
    explanation = explain_layers(function, lambda: call(*made), title=call.__qualname__, device=options.device)
    shown(explanation, options, lambda: str(explanation))


class _Samples(ast.NodeTransformer):
    """Replaces f(3,4) and the other letters of sample tensors by names of tensors."""

    LETTERS = re.compile(r"[fpuozwsmb]|i\d+|q\d+")

    def __init__(self):
        self.texts = []

    def visit_Call(self, node):
        self.generic_visit(node)
        name = node.func
        if not (isinstance(name, ast.Name) and self.LETTERS.fullmatch(name.id)) or node.keywords:
            return node
        try:
            sizes = [ast.literal_eval(a) for a in node.args]
        except ValueError:
            return node
        if not all(type(size) is int for size in sizes):
            return node
        self.texts.append(f"{name.id}({','.join(map(str, sizes))})")
        return ast.copy_location(ast.Name(f"_sample_{len(self.texts) - 1}", ast.Load()), node)


def explain_expression(options):
    import strata

    from ._journey import follow

    samples = _Samples()
    try:
        tree = ast.fix_missing_locations(samples.visit(ast.parse(options.expression, mode="eval")))
        code = compile(tree, "<expression>", "eval")
    except (SyntaxError, ValueError) as error:
        raise UserError(f"{options.expression!r} is no expression: {error}") from None
    tensors = inputs_of(samples.texts, strata, options, "")
    if options.backward:
        tensors = [t.requires_grad_() if t.is_floating_point() else t for t in tensors]
    names = {k: v for k, v in vars(strata).items() if not k.startswith("_")}
    names |= {"strata": strata, "F": strata.nn.functional} | {f"_sample_{i}": t for i, t in enumerate(tensors)}
    if not any(isinstance(n, ast.Call | ast.BinOp | ast.UnaryOp | ast.Compare | ast.Subscript) for n in ast.walk(tree)):
        raise UserError(f"{options.expression!r} computes nothing")
    journey = follow(lambda: eval(code, names), title=options.expression, backward=options.backward, warm_up=True)
    shown(journey, options, lambda: str(journey))


def main(arguments=None):
    parser = argparse.ArgumentParser(
        prog="strata explain", description="Explains an expression, a network or a compiled function.", epilog=EXAMPLE
    )
    what = parser.add_mutually_exclusive_group(required=True)
    what.add_argument("--compile", metavar="FILE:NAME", help="a module, a class of modules, or a function, compiled")
    what.add_argument("--network", metavar="FILE:NAME", help="a module or a class of modules, layer by layer")
    what.add_argument("--expression", help="such as f(3,4) @ f(4)")
    parser.add_argument(
        "--input", action="append", default=[], metavar="SAMPLE", help="such as f(8,3,32,32); once per argument"
    )
    parser.add_argument(
        "--backward", action="store_true", help="training mode, with the gradient of the sum of all results"
    )
    parser.add_argument("--replay", action="store_true", help="compile with replay=True")
    parser.add_argument("--calls", type=int, default=4, help="calls before the one that is explained, with --replay")
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--dtype", default="float32", help="of the f(..) tensors")
    parser.add_argument("--json", action="store_true", help="machine-readable output")
    parser.add_argument("--html", metavar="FILE", help="write a page")
    options = parser.parse_args(arguments)
    run = explain_compiled if options.compile else explain_network if options.network else explain_expression
    return finished(lambda: run(options), options.compile or options.network or options.expression)


if __name__ == "__main__":
    sys.exit(main())
