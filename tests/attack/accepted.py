"""Differences to PyTorch that are meant. Each has its reason in docs/usage/differences.md, under the heading named here."""

import re

# (pattern over the line, pattern over the finding, heading in differences.md)
ACCEPTED = (
    # Writes through views
    (r"", r"only the other refused it: .*(output of a function that returns multiple views|view and its base or another view)", "Autograd"),
    (r"", r"only the other refused it: .*needed for gradient computation has been modified", "Autograd"),
    (r"(unsqueeze_|squeeze_|t_|transpose_)\(", r"only the other refused it: .*view of a leaf", "Autograd"),
    (r"logical_\w+_\(", r"only we refused it: .*leaf Variable that requires grad", "Autograd"),
    (r"(lt|le|gt|ge|eq|ne|logical_\w+)_\(", r"requires_grad False beside True", "Autograd"),
    (r"no_grad", r"requires_grad False beside True", "Autograd"),
    (r"^grads = ", r"grads\[\d+\]: requires_grad False beside True", "Autograd"),
    (r"\.data", r"modified by an inplace operation|TBackward", "Autograd"),
    (r"requires_grad_\(\)", r"requires_grad False beside True", "Autograd"),
    (r"^(grads|more) = ", r"(grads|more)\[\d+\]: requires_grad", "Autograd"),
    (r"", r"only we refused it: .*modified by an inplace operation", "Autograd"),
    (r"^more = ", r"more\[\d+\]: nothing beside a tensor", "Autograd"),
    # Arguments
    (r"einsum", r"dtype", "Numbers"),
    (r"repeat_interleave", r"only the other refused it: IndexError", "Answered where PyTorch refuses"),
    (r"(v\d+)\.\w+_\(\1, \1\)", r"torch: v\d+: ", "Answered where PyTorch refuses"),
    (r"(\.int\(\)|\.long\(\)|uint8|int8)", r"torch: v\d+: ", "Numbers"),
    (r"(huber_loss|take_along_dim|kron|index_add)", r"only the other refused it", "Answered where PyTorch refuses"),
    (r"\] = ", r"only the other refused it: .*source and destination dtypes match", "Answered where PyTorch refuses"),
    (r"matrix_exp", r"only we refused it: .*non-finite", "Numbers"),
    (r"(grid_sample|cdist)", r"nan", "Numbers"),
    (r"(einsum|lerp|cross|addcmul|addmm|baddbmm|dot|bmm|kron|vdot)", r"only the other refused it: .*(expected (scalar type|dtype)|must have the same dtype|did not match|same dtype)", "Answered where PyTorch refuses"),
    (r"addcmul", r"only we refused it: .*for integer tensors the argument value", "Numbers"),
    (r"(resize_|out=)", r"only we refused it: .*(cannot resize a view|cannot be resized)", "Tensors"),
)  # fmt: skip
# What an earlier line makes different later: (pattern over any line so far, pattern over the finding, heading).
LASTING = (
    (r"register_hook\(lambda g: g \* 2\)", r"(\.grad|grads\[\d+\]|more\[\d+\]|log\[\d+\]): ", "Autograd"),
    (r"resize_\(", r"grad|grads|more", "Tensors"),
    # PyTorch's gradient of atan2 negates uint8 numbers, which wrap.
    (r"atan2\(", r"(\.grad|grads\[\d+\]|more\[\d+\]): ", "Numbers"),
    # PyTorch's slope at NaN depends on whether the element is in a vector or in the rest of a row.
    (r"(elu|selu|celu)\(", r"(\.grad|grads\[\d+\]|more\[\d+\]): .*nan", "Numbers"),
    (r"\.data = ", r"grad|grads|more|log|requires_grad", "Autograd"),
    (r"(lt|le|gt|ge|eq|ne)_\(", r"log: |beside nothing|nothing beside", "Autograd"),
    (r"(quantile|topk|kthvalue|sort|unique)\(", r"(\.grad|grads\[\d+\]|more\[\d+\]|log\[\d+\]): ", "Numbers"),
    (r"logical_\w+_\(", r"(\.grad|grads\[\d+\]|more\[\d+\]|log\[\d+\]): |(log|grads|more): \d", "Autograd"),
    (r"no_grad\(\): .*(lt|le|gt|ge|eq|ne)_\(", r"(\.grad|grads\[\d+\]|more\[\d+\]|log\[\d+\]): ", "Autograd"),
)  # fmt: skip


def reason(line, finding, before=()):
    """The heading that explains the finding at this line of a program, or None."""
    for in_line, in_finding, why in ACCEPTED:
        if re.search(in_line, line) and re.search(in_finding, finding):
            return why
    for in_line, in_finding, why in LASTING:
        if any(re.search(in_line, earlier) for earlier in before) and re.search(in_finding, finding):
            return why
    return None
