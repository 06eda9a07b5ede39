"""Storage objects: the memory behind a tensor, as `x.untyped_storage()` and `x.storage()` show it."""

import mmap

from .. import _C


def _shown(storage, text):
    lines = "\n ".join(map(str, storage.tolist()))
    package = repr(_C.float32).partition(".")[0]  # the name that types are printed with
    return f" {lines}\n[{package}.storage.{text} of size {len(storage)}]"


class UntypedStorage:
    """The bytes of a tensor's memory, which all its views share."""

    def __init__(self, *args, device=None):
        size = args[0] if args else 0
        self._bytes = _C.ops["empty"](size, dtype=_C.uint8, device=device) if isinstance(size, int) else _C.tensor(size)

    @classmethod
    def _of(cls, tensor):
        made = cls.__new__(cls)
        made._bytes = tensor._storage_bytes()
        return made

    @classmethod
    def _over(cls, data):
        """The storage of exactly these bytes."""
        made = cls.__new__(cls)
        made._bytes = data
        return made

    @classmethod
    def from_file(cls, filename, shared=False, nbytes=0):
        """The bytes of a file, read when they are used. With `shared`, writes go to the file, which is made long enough."""
        with open(filename, "r+b" if shared else "rb") as file:
            if shared and file.seek(0, 2) < nbytes:
                file.truncate(nbytes)
            access = mmap.ACCESS_WRITE if shared else mmap.ACCESS_COPY
            mapped = mmap.mmap(file.fileno(), nbytes, access=access) if nbytes else bytearray()
        return cls._over(_C.from_numpy(mapped) if nbytes else _C.ops["empty"](0, dtype=_C.uint8))

    def untyped(self):
        """The storage itself."""
        return self

    def __dlpack__(self, **options):
        return self._bytes.__dlpack__(**options)

    def __dlpack_device__(self):
        return self._bytes.__dlpack_device__()

    def data_ptr(self):
        """The address of the first byte."""
        return self._bytes.data_ptr()

    def nbytes(self):
        """The number of bytes."""
        return self._bytes.numel()

    size = __len__ = nbytes

    def element_size(self):
        """1: bytes."""
        return 1

    def __getitem__(self, index):
        got = self._bytes[index]
        return got.item() if isinstance(index, int) else UntypedStorage._over(got)

    def __setitem__(self, index, value):
        self._bytes[index] = value

    def tolist(self):
        """The bytes as a list."""
        return self._bytes.tolist()

    @property
    def device(self):
        return self._bytes.device

    is_cuda = property(lambda self: self._bytes.is_cuda)

    def is_shared(self):
        """Whether other processes can map the memory."""
        return self._bytes.is_shared()

    def share_memory_(self):
        """Moves the bytes into memory that other processes can map; tensors made before keep the old memory."""
        self._bytes.share_memory_()
        return self

    def copy_(self, source, non_blocking=False):
        """Copies the bytes of another storage."""
        self._bytes.copy_(source._bytes)
        return self

    def fill_(self, value):
        """Sets all bytes."""
        self._bytes.fill_(value)
        return self

    def resize_(self, size):
        """Changes the number of bytes; if there must be more memory, tensors made before keep the old one."""
        self._bytes.resize_(size)
        return self

    def clone(self):
        """A copy."""
        return UntypedStorage._over(self._bytes.clone())

    __copy__ = clone

    def __deepcopy__(self, memo):
        if id(self) not in memo:
            memo[id(self)] = self.clone()
        return memo[id(self)]

    def __iter__(self):
        return iter(self.tolist())

    def get_device(self):
        """The device number, -1 on the CPU."""
        return self._bytes.get_device()

    def is_pinned(self, device=None):
        """Whether the memory is page-locked."""
        return self._bytes.is_pinned()

    def pin_memory(self, device=None):
        """The bytes in page-locked memory."""
        return UntypedStorage._of(self._bytes.pin_memory())

    def cpu(self):
        """The storage on the CPU."""
        return UntypedStorage._of(self._bytes.cpu())

    def cuda(self, device=None, non_blocking=False):
        """The storage on a GPU."""
        return UntypedStorage._of(self._bytes.cuda(device))

    def __eq__(self, other):
        return isinstance(other, UntypedStorage) and (self.data_ptr(), len(self)) == (other.data_ptr(), len(other))

    def __hash__(self):
        return hash((self.data_ptr(), len(self)))

    def __repr__(self):
        return _shown(self, f"UntypedStorage(device={self.device})")


class TypedStorage:
    """The elements of a tensor's memory, as numbers of one dtype."""

    dtype = None  # a subclass such as FloatStorage has one

    def __init__(self, *args, dtype=None, device=None, wrap_storage=None):
        self.dtype = dtype or type(self).dtype or _C.get_default_dtype()
        if wrap_storage is not None:
            self._untyped = wrap_storage
        else:
            data = args[0] if args else 0
            shape = isinstance(data, int)
            made = (
                _C.ops["empty"](data, dtype=self.dtype, device=device) if shape else _C.tensor(data, dtype=self.dtype)
            )
            self._untyped = UntypedStorage._of(made)

    @classmethod
    def _of(cls, tensor):
        return TypedStorage(dtype=tensor.dtype, wrap_storage=UntypedStorage._of(tensor))

    @property
    def _elements(self):
        size = self.dtype.itemsize
        data = self._untyped._bytes
        return data[: data.numel() // size * size].view(self.dtype)

    def untyped(self):
        """The same memory as bytes."""
        return self._untyped

    def data_ptr(self):
        """The address of the first element."""
        return self._untyped.data_ptr()

    def size(self):
        """The number of elements."""
        return self._elements.numel()

    __len__ = size

    def nbytes(self):
        """The number of bytes."""
        return self._untyped.nbytes()

    def element_size(self):
        """Bytes per element."""
        return self.dtype.itemsize

    def __getitem__(self, index):
        got = self._elements[index]
        return got.item() if isinstance(index, int) else TypedStorage._of(got.clone())

    def __setitem__(self, index, value):
        self._elements[index] = value

    def __iter__(self):
        return iter(self.tolist())

    def tolist(self):
        """The elements as a list."""
        return self._elements.tolist()

    def fill_(self, value):
        """Sets all elements."""
        self._elements.fill_(value)
        return self

    @property
    def device(self):
        return self._untyped.device

    is_cuda = property(lambda self: self._untyped.is_cuda)

    def is_shared(self):
        """Whether other processes can map the memory."""
        return self._untyped.is_shared()

    def __repr__(self):
        return _shown(self, f"TypedStorage(dtype={self.dtype}, device={self.device})")


_KINDS = dict(
    Float="float32",
    Double="float64",
    Half="float16",
    BFloat16="bfloat16",
    Long="int64",
    Int="int32",
    Short="int16",
    Char="int8",
    Byte="uint8",
    Bool="bool",
)
for _name, _dtype in _KINDS.items():
    globals()[f"{_name}Storage"] = type(f"{_name}Storage", (TypedStorage,), {"dtype": getattr(_C, _dtype)})


def is_storage(obj):
    """Whether obj is a storage."""
    return isinstance(obj, (UntypedStorage, TypedStorage))
