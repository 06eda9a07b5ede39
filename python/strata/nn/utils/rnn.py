"""Sequences of different lengths: padded, or packed without padding."""

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
        """The same with the data converted; the indices move with the data, the batch sizes stay on the CPU."""
        data = self.data.to(*args, **kwargs)
        order, back = (i if i is None else i.to(data.device) for i in (self.sorted_indices, self.unsorted_indices))
        return type(self)(data, self.batch_sizes, order, back)

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
    """The inverse of a permutation."""
    if permutation is None:
        return None
    out = _op["empty_like"](permutation)
    return out.scatter_(0, permutation, _op["arange"](0, permutation.numel(), device=permutation.device))


def pack_padded_sequence(input, lengths, batch_first=False, enforce_sorted=True):
    """Packs padded sequences [steps, batch, ...]; enforce_sorted=False allows lengths in any order."""
    lengths = lengths.to(_C.int64) if isinstance(lengths, _C.Tensor) else _C.tensor(list(lengths), dtype=_C.int64)
    order = None
    if not enforce_sorted:
        lengths, order = lengths.sort(descending=True, stable=True)
        order = order.to(input.device)
    data, batch_sizes = _op["_pack_padded_sequence"](input, lengths, order, batch_first)
    return PackedSequence(data, batch_sizes, order, None)


def pad_packed_sequence(sequence, batch_first=False, padding_value=0.0, total_length=None):
    """The padded form of packed sequences, and their lengths."""
    data, sizes, _, back = sequence
    padded, lengths = _op["_pad_packed_sequence"](data, sizes, back, batch_first, padding_value, total_length)
    return padded, lengths


def pad_sequence(sequences, batch_first=False, padding_value=0.0, padding_side="right"):
    """Stacks sequences of different lengths, padded to the longest."""
    return _op["_pad_sequence"](list(sequences), batch_first, padding_value, padding_side)


def unpad_sequence(padded_sequences, lengths, batch_first=False):
    """The sequences of a padded tensor, each with its own length."""
    if not batch_first:
        padded_sequences = padded_sequences.transpose(0, 1)
    return [s[: int(n)] for s, n in zip(padded_sequences, lengths, strict=True)]


def pack_sequence(sequences, enforce_sorted=True):
    """Packs sequences of different lengths."""
    sequences = list(sequences)
    return pack_padded_sequence(pad_sequence(sequences), [s.shape[0] for s in sequences], enforce_sorted=enforce_sorted)


def unpack_sequence(packed_sequences):
    """The sequences of a packed batch."""
    padded, lengths = pad_packed_sequence(packed_sequences, batch_first=True)
    return unpad_sequence(padded, lengths, batch_first=True)
