"""Sequences of several lengths: padded, and packed without padding."""

from collections import namedtuple

from ... import _C

_op = _C.ops


class PackedSequence(namedtuple("PackedSequence", ["data", "batch_sizes", "sorted_indices", "unsorted_indices"])):
    """The steps of several sequences without padding: data of all first steps, then of all second ones, ..."""

    __slots__ = ()

    def __new__(cls, data, batch_sizes=None, sorted_indices=None, unsorted_indices=None):
        if unsorted_indices is None:
            unsorted_indices = invert_permutation(sorted_indices)
        return super().__new__(cls, data, batch_sizes, sorted_indices, unsorted_indices)

    def to(self, *args, **kwargs):
        """The same with the data converted."""
        return type(self)(self.data.to(*args, **kwargs), self.batch_sizes, self.sorted_indices, self.unsorted_indices)

    def float(self):
        """The same in float32."""
        return self.to(_C.float32)

    def double(self):
        """The same in float64."""
        return self.to(_C.float64)

    def cpu(self):
        """The same on the CPU."""
        return self.to("cpu")

    @property
    def is_cuda(self):
        """Whether the data is on a CUDA device."""
        return self.data.is_cuda


def invert_permutation(permutation):
    """The permutation that undoes another."""
    if permutation is None:
        return None
    out = _op["empty_like"](permutation)
    return out.scatter_(0, permutation, _op["arange"](0, permutation.numel()))


def pack_padded_sequence(input, lengths, batch_first=False, enforce_sorted=True):
    """Packs padded sequences [steps, batch, ...]; enforce_sorted=False allows lengths in any order."""
    lengths = lengths.to(_C.int64) if isinstance(lengths, _C.Tensor) else _C.tensor(list(lengths), dtype=_C.int64)
    input = input.transpose(0, 1) if batch_first else input
    order = None
    if not enforce_sorted:
        lengths, order = lengths.sort(descending=True, stable=True)
        input = input.index_select(1, order)
    steps, batch = input.shape[:2]
    sizes = lengths.tolist()
    if len(sizes) != batch:
        raise RuntimeError(
            f"Expected `len(lengths)` to be equal to batch_size, but got {len(sizes)} (batch_size={batch})"
        )
    if not sizes or min(sizes) <= 0:
        raise RuntimeError(
            "Length of all samples has to be greater than 0, but found an element in 'lengths' that is <= 0"
        )
    if max(sizes) > steps:
        raise RuntimeError(f"Expected lengths of at most {steps} (the padded input's steps), got {max(sizes)}")
    if any(a < b for a, b in zip(sizes, sizes[1:], strict=False)):
        raise RuntimeError(
            "`lengths` array must be sorted in decreasing order when `enforce_sorted` is True. You can pass "
            "`enforce_sorted=False` to sort them for you."
        )
    running = [sum(n > t for n in sizes) for t in range(max(sizes))]
    data = _op["cat"]([input[t, :n] for t, n in enumerate(running)])
    return PackedSequence(data, _C.tensor(running, dtype=_C.int64), order, None)


def pad_packed_sequence(sequence, batch_first=False, padding_value=0.0, total_length=None):
    """The padded form of packed sequences, and their lengths."""
    sizes = sequence.batch_sizes.tolist()
    steps, batch = len(sizes), sizes[0]
    if total_length is not None:
        if total_length < steps:
            raise ValueError(
                f"Expected total_length to be at least the length of the longest sequence in input, but got "
                f"total_length={total_length} and max sequence length being {steps}"
            )
        steps = total_length
    pieces, rest = [], sequence.data.shape[1:]
    for piece in sequence.data.split(sizes) if len(sizes) else []:
        missing = batch - piece.shape[0]
        if missing:
            hole = _op["full"]((missing, *rest), padding_value, dtype=piece.dtype)
            piece = _op["cat"]([piece, hole])
        pieces.append(piece)
    pieces += [_op["full"]((batch, *rest), padding_value, dtype=sequence.data.dtype)] * (steps - len(sizes))
    out = _op["stack"](pieces)
    lengths = _C.tensor([sum(n > b for n in sizes) for b in range(batch)], dtype=_C.int64)
    if sequence.unsorted_indices is not None:
        out, lengths = out.index_select(1, sequence.unsorted_indices), lengths[sequence.unsorted_indices]
    return (out.transpose(0, 1) if batch_first else out), lengths


def pad_sequence(sequences, batch_first=False, padding_value=0.0, padding_side="right"):
    """Stacks sequences of several lengths, padded to the longest."""
    sequences = list(sequences)
    if not sequences:
        raise RuntimeError("received an empty list of sequences")
    if padding_side not in ("left", "right"):
        raise ValueError(f"padding_side should be either 'right' or 'left', but got {padding_side}")
    longest = max(s.shape[0] for s in sequences)
    padded = []
    for s in sequences:
        missing = longest - s.shape[0]
        if missing:
            hole = _op["full"]((missing, *s.shape[1:]), padding_value, dtype=s.dtype)
            s = _op["cat"]([s, hole] if padding_side == "right" else [hole, s])
        padded.append(s)
    return _op["stack"](padded, 0 if batch_first else 1)


def unpad_sequence(padded_sequences, lengths, batch_first=False):
    """The sequences of a padded tensor, each with its own length."""
    if not batch_first:
        padded_sequences = padded_sequences.transpose(0, 1)
    return [s[: int(n)] for s, n in zip(padded_sequences, lengths, strict=True)]


def pack_sequence(sequences, enforce_sorted=True):
    """Packs sequences of several lengths."""
    sequences = list(sequences)
    return pack_padded_sequence(pad_sequence(sequences), [s.shape[0] for s in sequences], enforce_sorted=enforce_sorted)


def unpack_sequence(packed_sequences):
    """The sequences of a packed batch."""
    padded, lengths = pad_packed_sequence(packed_sequences, batch_first=True)
    return unpad_sequence(padded, lengths, batch_first=True)
