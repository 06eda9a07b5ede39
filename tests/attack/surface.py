"""All callables that a Python user can reach: ops from the records, methods, functions, modules, optimizers, types.

`TARGETS` is a list of (name, draw): draw(rng, device) returns a function without arguments that makes one call, good or hostile."""

import inspect
import pathlib
import sys
import types

sys.path[:0] = [
    str(pathlib.Path(__file__).resolve().parents[1] / "python"),
    str(pathlib.Path(__file__).resolve().parent),
]

import module_samples  # noqa: E402
import records  # noqa: E402
import strata  # noqa: E402
from hostile import dressed, hostile, integers, mutated, tensor  # noqa: E402
from strata import _C, nn  # noqa: E402

# Not attacked: functions that download, read from a terminal, or by design end only with the process.
LEFT_OUT = {"download", "set_per_process_memory_fraction", "breakpoint", "help"}


def on(device, value):
    return records.map_tensors(lambda t: t.to(device), value) if device != "cpu" else value


# --- ops, from their records ---------------------------------------------------------------------------------------------------


def op_call(record, rng, device):
    """A sample of the record with some arguments replaced, as a function, method, in-place or out= call."""
    dtype = rng.choice(record["dtypes"]) if rng.random() < 0.4 else record["dtypes"][0]
    texts = [t for t in record["samples"] if dtype.is_floating_point or "~" not in t[:2]]
    arguments = _C._sample(record["index"], rng.choice(texts), dtype, rng.randrange(1000)) if texts else {}
    arguments = on(device, arguments)
    names = list(arguments)
    for name in rng.sample(names, min(len(names), rng.choice((0, 1, 1, 1, 2, 3)))):
        arguments[name] = mutated(rng, arguments[name], device)
    missing = [p for p in parameters(record) if p not in arguments]
    if missing and rng.random() < 0.3:
        name = rng.choice(missing)
        arguments[name] = mutated(rng, 1, device) if rng.random() < 0.5 else hostile(rng, device)
    if rng.random() < 0.3:
        arguments = {k: dressed(rng, v) if isinstance(v, strata.Tensor) else v for k, v in arguments.items()}
    if rng.random() < 0.02:
        arguments[rng.choice(("\ud800", "", "nonsense", "axis", "inplace", "out", "dim", "self"))] = hostile(
            rng, device
        )
    f = _C.ops[record["name"]]
    form = rng.random()
    if form < 0.15 and record["inplace"]:
        f = _C.ops[record["name"] + "_"]
    elif form < 0.25:
        outs = rng.choice((1, 1, 2, record["schema"].split("->")[1].count("Tensor")))
        arguments["out"] = tensor(rng, device) if outs == 1 else tuple(tensor(rng, device) for _ in range(outs))
    positional = []
    if rng.random() < 0.5:
        for name in parameters(record):
            if name not in arguments:
                break
            positional.append(arguments.pop(name))
        if rng.random() < 0.05:
            positional.append(hostile(rng, device))
    return lambda: f(*positional, **arguments)


def parameters(record):
    inside = record["schema"].split("(", 1)[1].rsplit(")", 1)[0].split("->")[0]
    return [p.split("=")[0].split()[-1] for p in inside.split(",") if "=" in p or len(p.split()) == 2]


# --- functions, classes and methods, by their signatures -----------------------------------------------------------------------

PLAUSIBLE = {
    "dim": lambda rng, device: rng.choice((0, -1, 1, 2)),
    "dtype": lambda rng, device: rng.choice((None, strata.float64, strata.int32)),
    "device": lambda rng, device: device,
    "params": lambda rng, device: [nn.Parameter(strata.randn(3, device=device))],
    "parameters": lambda rng, device: [nn.Parameter(strata.randn(3, device=device))],
    "optimizer": lambda rng, device: strata.optim.SGD([nn.Parameter(strata.randn(3, device=device))], lr=0.1),
    "module": lambda rng, device: nn.Linear(3, 2).to(device),
    "model": lambda rng, device: nn.Linear(3, 2).to(device),
    "func": lambda rng, device: lambda *a: a[0] * 2 if a else None,
    "fn": lambda rng, device: lambda *a: a[0] * 2 if a else None,
    "function": lambda rng, device: lambda *a: a[0] * 2 if a else None,
    "closure": lambda rng, device: lambda: strata.zeros((), requires_grad=True),
    "size": lambda rng, device: integers(rng),
    "p": lambda rng, device: rng.choice((0.5, 2)),
    "lr": lambda rng, device: 0.1,
    "dataset": lambda rng, device: [1, 2, 3, 4],
    "f": lambda rng, device: "attack.bin",
    "path": lambda rng, device: "attack.bin",
    "filename": lambda rng, device: "attack.bin",
    "mode": lambda rng, device: rng.choice(("mean", "sum", "reflect", "nearest", "bilinear")),
    "reduction": lambda rng, device: rng.choice(("mean", "sum", "none")),
    "timeout": lambda rng, device: 0,
    "num_workers": lambda rng, device: rng.choice((0, 1, -1, 2**40)),
}


def signature_of(f):
    try:
        return inspect.signature(f)
    except (TypeError, ValueError):
        return None


def drawn_arguments(rng, signature, device, skip=0):
    """Arguments for a signature: plausible by name, tensors, or hostile."""
    if signature is None:
        return [hostile(rng, device) for _ in range(rng.choice((0, 1, 1, 2, 2, 3, 5)))], {}
    args, keywords = [], {}
    for p in list(signature.parameters.values())[skip:]:
        if p.kind in (p.VAR_POSITIONAL, p.VAR_KEYWORD):
            if p.kind is p.VAR_POSITIONAL:
                args += [hostile(rng, device) for _ in range(rng.choice((0, 1, 2)))]
            continue
        if p.default is not p.empty and rng.random() < 0.7:
            continue
        chance = rng.random()
        if chance < 0.5 and p.name in PLAUSIBLE:
            value = PLAUSIBLE[p.name](rng, device)
        elif chance < 0.5 and p.default is not p.empty:
            value = mutated(rng, p.default, device)
        elif chance < 0.75:
            value = tensor(rng, device)
        else:
            value = hostile(rng, device)
        if p.default is p.empty and p.kind is not p.KEYWORD_ONLY and not keywords:
            args.append(value)
        else:
            keywords[p.name] = value
    return args, keywords


def function_call(f, rng, device):
    args, keywords = drawn_arguments(rng, signature_of(f), device)
    return lambda: f(*args, **keywords)


def method_call(make_object, name, rng, device):
    """A method of a fresh object; sometimes a property, or the unbound function on something else."""
    obj = make_object(rng, device)
    owner = type(obj)
    attribute = inspect.getattr_static(owner, name)
    if isinstance(attribute, (types.GetSetDescriptorType, types.MemberDescriptorType, property)):
        value, action = hostile(rng, device), rng.randrange(4)
        return (
            (lambda: setattr(obj, name, value))
            if action == 0
            else (lambda: delattr(obj, name))
            if action == 1
            else (lambda: getattr(obj, name))
        )
    bound = getattr(obj, name)
    if not callable(bound):
        return lambda: bound
    args, keywords = drawn_arguments(rng, signature_of(bound), device)
    if rng.random() < 0.05:
        other = hostile(rng, device)
        return lambda: getattr(owner, name)(other, *args, **keywords)
    return lambda: bound(*args, **keywords)


# --- modules -------------------------------------------------------------------------------------------------------------------


def module_call(record, rng, device):
    number = rng.randrange(len(record.samples))
    cls = getattr(nn, record.name)
    given = dict(module_samples.arguments(record, number))
    inputs = on(device, module_samples.inputs(record, number))
    for name in rng.sample(list(given), min(len(given), rng.choice((0, 0, 1, 2)))):
        given[name] = mutated(rng, given[name], device)
    for place in range(len(inputs)):
        if rng.random() < 0.4:
            inputs[place] = mutated(rng, inputs[place], device)
    changes = rng.random()

    def run():
        module = cls(**given)
        if device != "cpu":
            module = module.to(device)
        if changes < 0.1:
            module.eval()
        elif changes < 0.2:
            module = module.to(strata.float64)
        elif changes < 0.25:
            module.load_state_dict({k: mutated(rng, v, device) for k, v in module.state_dict().items()})
        return module(*inputs)

    return run


# --- optimizers and schedules --------------------------------------------------------------------------------------------------


def optimizer_call(cls, rng, device):
    """Constructor arguments, gradients, states and closures that may be anything."""
    signature = signature_of(cls)
    _, keywords = drawn_arguments(rng, signature, device, skip=1)
    params = [
        nn.Parameter(tensor(rng, device, dtype=strata.float32).detach().clone()) for _ in range(rng.choice((1, 2, 3)))
    ]
    grads = [rng.choice((None, tensor(rng, device), strata.ones_like(p))) for p in params]
    odd_state = hostile(rng, device) if rng.random() < 0.1 else None
    closure = rng.choice((None, None, lambda: params[0].sum(), lambda: None))

    def run():
        optimizer = cls(params, **keywords)
        for p, g in zip(params, grads, strict=True):
            try:
                p.grad = g
            except (RuntimeError, TypeError):
                pass
        optimizer.step(closure) if closure else optimizer.step()
        state = optimizer.state_dict()
        if odd_state is not None:
            for entry in state.get("state", {}).values():
                for key in entry:
                    entry[key] = odd_state
        optimizer.load_state_dict(state)
        optimizer.step(closure) if closure else optimizer.step()
        optimizer.zero_grad()

    return run


def schedule_call(cls, rng, device):
    optimizer = strata.optim.SGD([nn.Parameter(strata.randn(3))], lr=0.1, momentum=0.9)
    _, keywords = drawn_arguments(rng, signature_of(cls), device, skip=1)

    def run():
        schedule = cls(optimizer, **keywords)
        for _ in range(3):
            schedule.step()
        schedule.load_state_dict(schedule.state_dict())
        return schedule.get_last_lr()

    return run


# --- the list ------------------------------------------------------------------------------------------------------------------


def public(namespace):
    return [n for n in dir(namespace) if not n.startswith("_") and n not in LEFT_OUT]


def targets():
    found = [(f"op {records.label(r)}", lambda rng, device, r=r: op_call(r, rng, device)) for r in records.RECORDS]
    found += [
        (f"module {r.name}", lambda rng, device, r=r: module_call(r, rng, device)) for r in module_samples.RECORDS
    ]
    op_type = type(strata.add)
    spaces = [strata, strata.linalg, strata.special, nn, nn.functional, nn.init, nn.utils, nn.utils.rnn, nn.utils.parametrize, nn.utils.parametrizations,
              strata.autograd, strata.autograd.functional, strata.func, strata.optim, strata.optim.lr_scheduler, strata.optim.swa_utils,
              strata.utils.data, strata.utils.checkpoint, strata.random, strata.serialization, strata.safetensors, strata.testing, strata.cuda,
              strata.vgpu, strata.vision.transforms, strata.sparse, strata.array_api, strata.array_api.linalg, strata.array_api.fft,
              strata.autograd.forward_ad]  # fmt: skip
    seen = set()
    for space in spaces:
        for name in public(space):
            f = getattr(space, name)
            if not callable(f) or isinstance(f, op_type) or id(f) in seen or isinstance(f, types.ModuleType):
                continue
            seen.add(id(f))
            label = f"{space.__name__}.{name}"
            if isinstance(f, type) and issubclass(f, strata.optim.Optimizer):
                found.append((f"optimizer {label}", lambda rng, device, f=f: optimizer_call(f, rng, device)))
            elif isinstance(f, type) and issubclass(f, strata.optim.lr_scheduler.LRScheduler):
                found.append((f"schedule {label}", lambda rng, device, f=f: schedule_call(f, rng, device)))
            else:
                found.append((f"function {label}", lambda rng, device, f=f: function_call(f, rng, device)))
    makers = {
        "Tensor": lambda rng, device: tensor(rng, device),
        "SparseTensor": lambda rng, device: strata.sparse_coo_tensor(
            [[0, 1], [1, 2]], strata.ones(2, device=device), (3, 3)
        ),
        "Size": lambda rng, device: strata.Size((2, 3)),
        "device": lambda rng, device: strata.device(device),
        "dtype": lambda rng, device: strata.float32,
        "Generator": lambda rng, device: strata.Generator(),
        "Parameter": lambda rng, device: nn.Parameter(strata.randn(2, 3, device=device)),
        "Module": lambda rng, device: nn.Sequential(nn.Linear(3, 2), nn.BatchNorm1d(2)).to(device),
        "ModuleList": lambda rng, device: nn.ModuleList([nn.Linear(3, 2)]),
        "ModuleDict": lambda rng, device: nn.ModuleDict({"a": nn.Linear(3, 2)}),
        "ParameterList": lambda rng, device: nn.ParameterList([strata.ones(2)]),
        "DataLoader": lambda rng, device: strata.utils.data.DataLoader([1, 2, 3]),
    }
    import random

    silent = {
        "__class__",
        "__init_subclass__",
        "__subclasshook__",
        "__del__",
        "__getattribute__",
        "__dict__",
        "__weakref__",
        "__slots__",
    }
    for kind, make in makers.items():
        owner = type(make(random.Random(0), "cpu"))
        for name in sorted(
            set(dir(owner)) - silent - set(dir(object))
            | {"__reduce_ex__", "__setattr__", "__delattr__", "__new__", "__init__", "__eq__"}
        ):
            if isinstance(inspect.getattr_static(owner, name, None), op_type) and kind == "Parameter":
                continue
            found.append(
                (
                    f"method {kind}.{name}",
                    lambda rng, device, make=make, name=name: method_call(make, name, rng, device),
                )
            )
    return found
