"""Differences to PyTorch that are meant. Each has its reason in docs/usage/differences.md, under the heading named here.

A rule names the line, the finding and, where these two do not suffice, a condition on the program. A rule that fits more than its reason explains hides
defects: where the writer of programs can avoid an ambiguous case, it does (`Writer.filled`), and there is no rule."""

import re

import numpy as np

REFUSED = "torch: only the other refused it: .*"
WE_REFUSED = "torch: only we refused it: .*"
COMPARED = r"\.(lt|le|gt|ge|eq|ne|logical_\w+)_\("


def has_infinities(program):
    """A variable of the line holds infinities or NaN."""
    return any(not t.isfinite().all().item() for t in program.operands())


def overlapping(program):
    """The line writes to a tensor that shares memory with another one that it reads."""
    memory = [(t if t._base is None else t._base).data_ptr() for t in program.operands()]
    return len(set(memory)) < len(memory)


def other_layout(program):
    """PyTorch's tensor has other strides."""
    return any(program.space[n].stride() != program.theirs[n].stride() for n in program.names())


def other_memory(program):
    """The memory behind PyTorch's tensor has another size."""
    for name in program.names():
        t = program.space[name]
        whole = t if t._base is None else t._base
        if program.theirs[name].untyped_storage().nbytes() != whole.numel() * whole.dtype.itemsize:
            return True
    return False


def of_nonzero(program):
    """The variable that differs is a result of nonzero(), whose rows are apart in PyTorch's memory: ravel() copies it there."""
    name = program.difference.partition(":")[0]
    made = any(re.match(rf"{name} = .*\.nonzero\(\)$", line) for line in program.lines)
    return made and program.space[name].stride() != program.theirs[name].stride()


def of_integers(program):
    """The variable that requires no gradient holds integers."""
    return not program.space[program.difference.partition(":")[0]].is_floating_point()


def of_one_element(program):
    return any(t.dim() == 0 for t in program.operands())


def is_view(program, name):
    return program.space[name]._base is not None


def writes(program, name, recorded=True):
    """The places of the lines that write to the memory behind a variable; with recorded=False only those that are not recorded."""

    def memory(n):
        t = program.space[n]
        return (t if t._base is None else t._base).data_ptr()

    for i, line in enumerate(program.lines):
        m = re.match(
            r"(with T\.no_grad\(\): )?(v\d+)(\.detach\(\)|\.data)?(?:\.(?:view|select|diagonal)\([^)]*\))?(?:\.\w+_\(|\[.*\]( [*+-]?= |\.)| [*+-]= )",
            line,
        )
        out = re.search(r"out=(v\d+)", line) or re.search(r"\((v\d+)\b.*, inplace=True\)", line)
        unrecorded = m and (m[1] or m[3] or not program.space[m[2]].requires_grad)
        if m and (recorded or unrecorded) and memory(m[2]) == memory(name):
            yield i
        elif out and memory(out[1]) == memory(name):
            yield i


def hook_of_a_written_view(program):
    """A view got a hook, then its memory was written without recording; or any tensor, and its memory was written through a view. Without
    the hooks both sides agree."""
    hook = re.compile(r"(v\d+)\.register_hook")
    hooks = [(i, m[1]) for i, line in enumerate(program.lines) if (m := hook.match(line))]

    def through_a_view(i):
        return re.match(r"v\d+\.(view|select|diagonal)\(", program.lines[i]) or is_view(
            program, re.search(r"v\d+", program.lines[i])[0]
        )

    def written(i, name):
        unseen = writes(program, name, recorded=False) if is_view(program, name) else ()
        return max([*(j for j in writes(program, name) if through_a_view(j)), *unseen], default=-1) > i

    if not any(written(i, name) for i, name in hooks):
        return False
    ours, theirs = program.again(lambda line: None if hook.match(line) else line)
    return bool(ours and theirs) and not any(program.compare(ours, theirs, program.all_names()))


def grad_of_a_hooked_tensor(program):
    """grad() of a tensor with hooks that double gradients: PyTorch may return it without them."""
    if f"{program.asked_for()}.register_hook(lambda g: g * 2)" not in program.lines:
        return False
    return any(near(program.difference.ours, n * program.difference.theirs, 1e-2) for n in (2, 4, 8))


def written_after_made(program, name):
    """The variable is a view, and its memory was written without recording after the view was made."""
    made = next((i for i, line in enumerate(program.lines) if line.startswith(f"{name} = ")), -1)
    return is_view(program, name) and max(writes(program, name, recorded=False), default=-1) > made


def gradient_of_a_written_view(program):
    """The gradient of a view is asked for, and its memory was written without recording after the view was made."""

    return any(written_after_made(program, name) for name in program.names())


def retained_with_a_graph(program):
    """The gradient was retained by a call with create_graph=True."""
    name = program.difference.partition(".grad")[0]
    return f"{name}.retain_grad()" in program.lines and any(
        "create_graph=True" in s for s in (*program.lines, program.line)
    )


def retained_by_a_written_view(program):
    """The view retains its gradient, and its memory was written without recording after it was made."""
    name = program.difference.partition(".grad")[0]
    return f"{name}.retain_grad()" in program.lines and written_after_made(program, name)


def view_over_written_memory(program):
    """The gradient of a view is asked for whose memory was written without recording: PyTorch does not lead gradients of tensors made before
    the write, or of other views, back to it any more. Without these writes both sides agree."""
    name = program.asked_for()
    unseen = set(writes(program, name, recorded=False)) if name else ()
    if not (unseen and is_view(program, name)):
        return False
    left_out = {program.lines[i] for i in unseen}
    ours, theirs = program.again(lambda line: None if line in left_out else line)
    return bool(ours and theirs) and not any(program.compare(ours, theirs, [name]))


def unseen_write(program):
    """A tensor that was saved was written through .data, unseen: through detach() one side would have noticed."""
    seen = re.compile(r"\.data\b(?! = )")
    if not any(seen.search(line) for line in program.lines):
        return False
    refused = []
    program.again(lambda line: seen.sub(".detach()", line), refused)
    return any("modified by an inplace operation" in str(e) for e in refused)


def broadcast_product(program):
    """The saved tensor is an operand of a product whose batch dimensions it does not have, or the other operand is a matrix, which PyTorch
    multiplies with the stacked batch: it saves a copy."""
    shape = re.search(r"matmul saved a \w+ tensor of shape \[([\d, ]*)\]", program.difference)[1]
    for shapes in program.shapes_at(r" @ |matmul\("):
        batch = np.broadcast_shapes(*(x[:-2] for x in shapes))
        for x in shapes:
            if str(list(x))[1:-1] == shape and (x[:-2] != batch or any(len(y) <= 2 < len(x) for y in shapes)):
                return True
    return False


def hooked_result(op, hook):
    """The result of the op has this hook, and PyTorch's second derivative passes through it once more."""

    def holds(program):
        made = [m[1] for line in program.lines if (m := re.match(rf"(v\d+) = .*\b{op}\(", line))]
        return any(f"{name}.register_hook(lambda g: {hook})" in program.lines for name in made)

    return holds


def hooked_activation(program):
    """A tensor that an activation overwrote has a hook, and PyTorch's second derivative passes through it once more: it is a
    function of the result there, and of the input here."""
    written = [m[1] for line in program.lines if (m := re.match(r"F\.\w+\((v\d+), .*inplace=True\)$", line))]
    return any(f"{name}.register_hook(lambda g: g * 2)" in program.lines for name in written)


def data_was_set_of_the_difference(program):
    """`.data` of the tensor whose gradient differs was set: PyTorch does not lead gradients of its older views to it any more."""
    name = program.difference.partition(".grad")[0]
    return any(line.startswith(f"{name}.data = ") for line in program.lines)


def data_was_set(program):
    return any(re.search(r"\.data = ", line) for line in program.lines)


def reshaped_in_place(program):
    return any(re.search(r"\.(unsqueeze_|squeeze_|t_|transpose_)\(", line) for line in program.lines)


def reshaped_leaf(program):
    """A leaf has another shape than the program gave it."""
    return any(tuple(t.shape) != tuple(program.ours.data[i][0]) for i, t in program.ours.made.items())


def same_numbers_in_the_new_shape(program):
    """The gradient of a leaf that was reshaped after its use: ours has the leaf's shape now, PyTorch's the one before."""
    leaf = program.space[program.asked_for()]
    ours, theirs = leaf.grad, program.theirs[program.asked_for()].grad
    return (
        reshaped_leaf(program)
        and tuple(ours.shape) == tuple(leaf.shape)
        and near(as_array(ours).ravel(), as_array(theirs).ravel(), 1e-6)
    )


def reshaped_after_a_view(program):
    """A tensor whose gradient is asked for was reshaped in place after a view of it was made, which PyTorch then derives anew."""
    for name in program.names():
        shaped = [
            i
            for i, line in enumerate(program.lines)
            if re.match(rf"{name}\.(unsqueeze_|squeeze_|t_|transpose_)\(", line)
        ]
        views = [i for i, line in enumerate(program.lines) if re.match(rf"v\d+ = {name}\b", line)]
        if shaped and views and min(views) < max(shaped):
            return True
    return False


def view_only_there(program):
    """A tensor whose gradient is asked for is a view in PyTorch alone (max_pool1d, instance_norm): other views of its base do not lead through it."""
    return any(program.theirs[n]._base is not None and not is_view(program, n) for n in program.names() if n != "loss")


def empty_of_mixed_dtypes(program):
    """The operands have different dtypes and no elements: PyTorch does not compare their dtypes then, and takes the last one."""
    operands = program.operands()
    return len({t.dtype for t in operands}) > 1 and any(t.numel() == 0 for t in operands)


def expanded_operand(program):
    """An operand repeats its elements along a dimension."""
    return any(
        step == 0 and size > 1 for t in program.operands() for step, size in zip(t.stride(), t.shape, strict=True)
    )


def resized_under_a_view(program):
    """out= resized a tensor of which an operand is a view: PyTorch overwrites elements that it still has to read."""
    target = re.search(r"out=(v\d+)", program.line)[1]
    whole = program.theirs[target]
    return any(program.theirs[n]._base is whole for n in program.names() - {target})


def same_hooks_in_another_order(program):
    """Both logs have the same gradients."""
    logs = [[as_array(g) for g in side["log"]] for side in (program.space, program.theirs)]
    left = list(logs[1])
    for g in logs[0]:
        same = next((h for h in left if h.dtype == g.dtype and h.shape == g.shape and near(g, h, 1e-2)), None)
        if same is None:
            return False
        left = [h for h in left if h is not same]
    return not left


def as_array(t):
    return np.array(t.detach().tolist(), dtype=str(t.dtype).split(".")[-1].replace("bfloat16", "float32"))


def moved(program):
    """out= gave its tensor other memory, and PyTorch's shares it with the variable that differs."""
    target, seen = re.search(r"out=(v\d+)", program.line)[1], program.difference.partition(":")[0]

    def memory(t):
        return t.data_ptr() - t.storage_offset() * t.element_size()

    pointers = [memory(side[n]) for side in (program.theirs, program.space) for n in (target, seen)]
    return target != seen and pointers[0] == pointers[1] and pointers[2] != pointers[3]


def only_zero(program):
    """The gradient that only one side has is zero."""
    both = (program.difference.ours, program.difference.theirs)
    return not any(x.any() for x in both if x is not None)


def not_finite(values, result):
    return any(not t.isfinite().all().item() for t in values)


def has_nan(values, result):
    return any(t.isnan().any().item() for t in values)


def result_zero_or_nan(values, result):
    return result is not None and ((result == 0) | result.isnan()).any().item()


def result_nan(values, result):
    return result is not None and result.isnan().any().item()


def only_nan_there(ours=False, **ops):
    """PyTorch's gradient is NaN where ours is a number (ours=True: the other way round), all else agrees, and one of the ops met its
    special point: a condition on the values of the line's variables and its result."""

    def holds(program):
        a, b = program.difference.ours, program.difference.theirs
        if a is None or b is None or a.shape != b.shape:
            return False
        if ours:
            a, b = b, a
        extra = np.isnan(b) & ~np.isnan(a)
        return extra.any() and near(a[~extra], b[~extra], 1e-2) and program.met(ops)

    return holds


def infinite_gradient(*ops):
    """PyTorch's gradient is NaN where ours is infinite, all else agrees, and one of the ops was used: PyTorch subtracts two terms that are
    infinite if the gradient that comes in is."""

    def holds(program):
        a, b = program.difference.ours, program.difference.theirs
        if a is None or b is None or a.shape != b.shape:
            return False
        extra = np.isnan(b) & np.isinf(a)
        return extra.any() and near(a[~extra], b[~extra], 1e-2) and program.used(*ops)

    return holds


def nan_of_infinities(program):
    """PyTorch's values are NaN where an operand is infinite and ours are not; all else agrees."""
    ours, theirs = program.difference.ours, program.difference.theirs
    if ours is None or theirs is None or ours.shape != theirs.shape or len(program.operands()) != 1:
        return False
    extra = np.isnan(theirs) & ~np.isnan(ours)
    infinite = np.isinf(as_array(program.operands()[0]))
    return (
        infinite.shape == extra.shape and bool((extra <= infinite).all()) and near(ours[~extra], theirs[~extra], 1e-2)
    )


def nan_lost_there(op):
    """PyTorch's gradient is 0 where ours is NaN, all else agrees, and the op was used: its gradient drops a NaN that comes in."""

    def holds(program):
        a, b = program.difference.ours, program.difference.theirs
        if a is None or b is None or a.shape != b.shape:
            return False
        lost = np.isnan(a) & (b == 0)
        return lost.any() and near(a[~lost], b[~lost], 1e-2) and program.used(op)

    return holds


def other_sign_of_infinity(**ops):
    """The results differ in signs of infinities alone, and one of the ops gave a zero, whose sign was the reason."""

    def holds(program):
        a, b = program.difference.ours, program.difference.theirs
        if a is None or b is None or a.shape != b.shape:
            return False
        turned = np.isinf(a) & (a == -b)
        return turned.any() and near(a[~turned], b[~turned], 1e-2) and program.met(ops)

    return holds


def both_not_finite(program):
    """Second derivatives that are infinite on one side and NaN on the other; all else agrees."""
    a, b = program.difference.ours, program.difference.theirs
    if a is None or b is None or a.shape != b.shape:
        return False
    wild = ~np.isfinite(a) & ~np.isfinite(b)
    return near(a[~wild], b[~wild], 1e-2)


def squares_overflow(program):
    """PyTorch's distances are infinite where ours are finite and too large to be squared in float32; all else agrees."""
    a, b = program.difference.ours, program.difference.theirs
    if a is None or b is None or a.shape != b.shape:
        return False
    lost = np.isinf(b) & np.isfinite(a)
    return bool((np.abs(a[lost]) > 1.8e19).all()) and near(a[~lost], b[~lost], 1e-6)


def slightly_apart(*ops):
    """The difference is one of float32's rounding, and one of the ops was used."""
    return lambda program: program.used(*ops) and near(program.difference.ours, program.difference.theirs, 1e-6)


def nearer_than_pytorch(program):
    """With float64 leaves both sides agree, and wherever the results with narrower ones are visibly apart, ours is nearer to that: the
    lines amplify a rounding error (an inverse of a value that is nearly 0), and PyTorch made the larger one."""
    what = re.match(r"(v\d+(\.grad)?|(grads|more|log)\[\d+\]): ", program.difference)
    narrow = (program.difference.ours, program.difference.theirs)
    sides = program.in_double()
    if not what or None in sides or any(x is None for x in narrow):
        return False
    ours, theirs = (as_array(eval(what[1], side.space)) for side in sides)
    if not all(x.shape == theirs.shape for x in (ours, *narrow)) or not near(ours, theirs, 1e-8):
        return False
    with np.errstate(all="ignore"):
        errors = [np.nan_to_num(np.abs(x - theirs), nan=np.inf) for x in narrow]
        apart = np.isfinite(theirs) & ~np.isclose(*narrow, rtol=1e-5, atol=0, equal_nan=True)
    return bool(apart.any() and (errors[0] < errors[1])[apart].all())


def amplified(program):
    """The program amplifies rounding errors: leaves that are a rounding error away change our result as much as the difference. Two points
    that happen to be close to each other, say, and then the second derivative of their distance."""
    what = re.match(r"(v\d+(\.grad)?|(grads|more|log)\[\d+\]): ", program.difference)
    ours, theirs = program.difference.ours, program.difference.theirs
    moved = program.nearby() if what and ours is not None and theirs is not None else None
    if moved is None:
        return False
    change = np.abs(as_array(eval(what[1], moved.space)) - ours)
    return bool(np.isfinite(change).all() and change.max() * 32 > np.abs(ours - theirs).max())


def has_zero(values, result):
    return any((t == 0).any().item() for t in values)


def near(a, b, tolerance):
    with np.errstate(all="ignore"):
        return np.allclose(
            a, b, rtol=tolerance, atol=tolerance * max(1, np.abs(b[np.isfinite(b)]).max(initial=0)), equal_nan=True
        )


GRADIENT = r"torch: (v\d+\.grad|grads\[\d+\]|more\[\d+\]|log\[\d+\]): [\[\d-]"
SECOND = r"torch: more\[\d+\]: [\[\d-]"

# (pattern over the line, pattern over the finding, heading in differences.md, condition on the program or None)
RULES = (
    # Writes through views
    (r"", REFUSED + r"output of a function that returns multiple views", "Autograd", None),
    (r"^(loss|grads|more|second)", REFUSED + r"needed for gradient computation has been modified", "Autograd", None),
    (r"^(loss|grads|more|second)", WE_REFUSED + r"inplace operation: nn.functional.tanhshrink saved", "Autograd", None),
    (r"^(loss|grads|more|second)", WE_REFUSED + r"modified by an inplace operation", "Autograd", data_was_set),
    # On the CPU the gradient reads the distances, as in PyTorch; devices compute them from other ops.
    (r"^(loss|grads|more|second)", r"vgpu: only we refused it: .*inplace operation: _[cp]dist saved", "Autograd", None),
    (r"^(loss|grads|more|second)", WE_REFUSED + r"inplace operation: matmul saved", "Autograd", broadcast_product),
    (r"^more = ", SECOND, "Autograd", hooked_result("(logsumexp|cdist)", "g * 2")),
    (r"^more = ", r"torch: log(\[\d+\]|: \d+ entries beside \d+)", "Autograd", hooked_result("(logsumexp|cdist)", r"log.append(g.detach().clone())")),
    (r"^more = ", SECOND, "Autograd", hooked_activation),
    (r"^loss", WE_REFUSED + r"the shape of a leaf changed", "Autograd", None),
    (r"^(loss|grads|more)", REFUSED + r"(Function \w+ returned an invalid gradient|output with shape .* doesn't match the broadcast shape)", "Autograd", reshaped_leaf),
    (r"^(grads|more|second)", WE_REFUSED + r"reshape: shape .* is invalid for input", "Autograd", reshaped_in_place),
    (r"\.(unsqueeze_|squeeze_|t_|transpose_)\(", REFUSED + r"a view of a leaf Variable", "Autograd", None),
    (COMPARED, r"torch: v\d+: requires_grad False beside True", "Autograd", None),
    (r"", r"torch: v\d+: requires_grad False beside True", "Autograd", of_integers),
    (r"^(v\d+)\.requires_grad_\(\)", r"torch: v\d+: requires_grad False beside True", "Autograd", None),
    (r"^grads = .*create_graph=True", r"torch: grads\[\d+\]: requires_grad", "Autograd", None),
    (r"^(grads|second|more) = ", r"torch: v\d+\.grad: requires_grad", "Autograd", retained_with_a_graph),
    (r"^more = ", r"torch: more\[\d+\]: (nothing beside a tensor|a tensor beside nothing)", "Autograd", only_zero),
    (r"", GRADIENT, "Autograd", unseen_write),
    (r"^(loss|grads|more|second)", WE_REFUSED + r"inplace operation: mul saved", "Autograd", lambda program: program.used("kron")),
    (r"^grads = .*\(loss, \[v", r"torch: grads\[\d+\]: [\[\d-]", "Autograd", grad_of_a_hooked_tensor),
    (r"^(loss\.backward\(inputs=|grads = )", r"torch: (v\d+\.grad|grads\[\d+\]): a tensor beside nothing", "Autograd", gradient_of_a_written_view),
    (r"^(loss\.backward\(inputs=|grads = )", WE_REFUSED + r"modified by an inplace operation", "Autograd", gradient_of_a_written_view),
    (r"", GRADIENT + r"|log: \d+ entries beside \d+", "Autograd", hook_of_a_written_view),
    (r"", r"torch: log\[\d+\]: ", "Autograd", same_hooks_in_another_order),
    (r"^(loss\.backward\(inputs=|grads = )", r"torch: (v\d+\.grad|grads\[\d+\]): [\[\d-]", "Autograd", reshaped_after_a_view),
    (r"^(loss\.backward\(inputs=|grads = )", r"torch: (v\d+\.grad|grads\[\d+\]): ([\[\d-]|a tensor beside nothing)", "Autograd", view_only_there),
    (r"^(loss\.backward|grads = )", r"torch: (v\d+\.grad|grads\[\d+\]): [\[\d-]", "Autograd", view_over_written_memory),
    (r"^loss\.backward", r"torch: v\d+\.grad: shape ", "Autograd", same_numbers_in_the_new_shape),
    (r"^loss\.backward", r"torch: v\d+\.grad: a tensor beside nothing", "Autograd", retained_by_a_written_view),
    (r"^loss\.backward\(inputs=", r"torch: v\d+\.grad: a tensor beside nothing", "Autograd", data_was_set_of_the_difference),
    (r"^loss\.backward", REFUSED + r"ZeroTensors are immutable", "Autograd", None),
    (r"^(loss|grads|more)", REFUSED + r"unsupported operand type\(s\) for \*: 'NoneType'", "Autograd", None),
    # Arguments
    (r"einsum", r"torch: v\d+: dtype", "Answered where PyTorch refuses", empty_of_mixed_dtypes),
    (r"repeat_interleave", REFUSED + r"IndexError", "Answered where PyTorch refuses", None),
    (r"(v\d+)\.addmm_\(\1, \1\)", r"torch: v\d+: \[", "Answered where PyTorch refuses", None),
    (r"\] = ", REFUSED + r"source and destination dtypes match", "Answered where PyTorch refuses", None),
    (r"(einsum|lerp|cross|dot|kron)", REFUSED + r"(expected (scalar type|dtype)|have the same dtype|did not match|same dtype)", "Answered where PyTorch refuses", None),
    (r"^(with T\.no_grad\(\): )?v\d+(\.\w+_\(|\[.*\]| [*+-]=)", r"torch: v\d+: \[", "Answered where PyTorch refuses", overlapping),
    (r"huber_loss", REFUSED + r"result type \w+ can't be cast", "Answered where PyTorch refuses", None),
    (r"(take_along_dim|index_add_?)\(", REFUSED + r"(tensor has no dimensions|source tensor shape must match)", "Answered where PyTorch refuses", of_one_element),
    (r"", REFUSED + r"view size is not compatible with", "Tensors", other_layout),
    (r"", WE_REFUSED + r"view: size .* is not compatible with", "Tensors", other_layout),
    (r"kron", REFUSED + r"view size is not compatible with", "Answered where PyTorch refuses", None),
    (r"as_strided", r"torch: v\d+: [\[\d-]", "Tensors", other_layout),
    (r"(_\(|\] = | [*+-]= |out=)", r"torch: v\d+: [\[\d-]", "Tensors", of_nonzero),
    (r"as_strided", r"torch: only (we|the other) refused it: .*out of bounds for storage", "Tensors", other_memory),
    (r"index_(fill|add|copy)_?\(", WE_REFUSED + r"is out of range for dimension \d+ with size 0", "Tensors", None),
    (r"", WE_REFUSED + r"(a tensor has at most 64|kron: at most 32) dimensions", "Tensors", None),
    # Numbers
    (r"\.cumsum_\(", WE_REFUSED + r"can't be cast to the desired output type bool", "Numbers", None),
    (r"", SECOND, "Numbers", both_not_finite),
    (r"", GRADIENT, "Numbers", infinite_gradient("softsign", "tanhshrink")),
    (r"", GRADIENT, "Numbers", slightly_apart("hardsigmoid", "hardswish", "xlogy", "xlog1py")),
    (r"", GRADIENT, "Numbers", only_nan_there(amax=has_nan, amin=has_nan, polygamma=not_finite, nan_to_num=not_finite, copysign=not_finite, softsign=not_finite, hardswish=has_nan,
                                         var=result_zero_or_nan, var_mean=result_zero_or_nan, std=result_zero_or_nan)),
    (r"^more = ", GRADIENT, "Numbers", only_nan_there(sinc=not_finite, dist=result_zero_or_nan, norm=result_zero_or_nan, vector_norm=result_zero_or_nan, normalize=result_zero_or_nan,
                                         renorm=result_zero_or_nan, std=result_zero_or_nan, cdist=result_zero_or_nan, cosine_similarity=result_zero_or_nan,
                                         copysign=result_zero_or_nan, logaddexp=not_finite, huber_loss=not_finite)),
    (r"", GRADIENT, "Numbers", only_nan_there(ours=True, cumprod=result_nan, softshrink=has_nan)),
    (r"", r"torch: (v\d+|v\d+\.grad|grads\[\d+\]|more\[\d+\]|log\[\d+\]): [\[\d-]", "Numbers", nearer_than_pytorch),
    (r"", r"(torch|vgpu|reference): (v\d+|v\d+\.grad|grads\[\d+\]|more\[\d+\]|log\[\d+\]): [\[\d-]", "Numbers", amplified),
    (r"^more = ", SECOND, "Numbers", lambda program: program.met({"prelu": has_zero})),
    (r"", GRADIENT, "Numbers", nan_lost_there("logcumsumexp")),
    (r"", r"torch: v\d+: [\[\d-]", "Numbers", other_sign_of_infinity(softshrink=result_zero_or_nan)),
    (r"cdist", r"torch: v\d+: \[", "Numbers", has_infinities),
    (r"cdist", r"torch: v\d+: \[", "Numbers", squares_overflow),
    (r"\bgelu\(", r"torch: v\d+: [\[\d-]", "Numbers", nan_of_infinities),
    (r"\.(median|nanmedian|kthvalue)\(", r"torch: v\d+: [\[\d-]", "Numbers", expanded_operand),
    (r"addcmul", WE_REFUSED + r"for integer tensors the argument value", "Numbers", None),
    (r"out=", r"torch: v\d+: [\[\d-]", "Tensors", moved),
    (r"out=", r"torch: v\d+: [\[\d-]", "Tensors", resized_under_a_view),
    (r"(resize_|out=)", WE_REFUSED + r"(cannot resize a view|cannot be resized)", "Tensors", None),
)  # fmt: skip


def reason(finding, program):
    """The heading that explains the finding at this line of a program, or None."""
    for in_line, in_finding, heading, condition in RULES:
        if (
            re.search(in_line, program.line)
            and re.search(in_finding, finding)
            and (not condition or condition(program))
        ):
            return heading
    return None
