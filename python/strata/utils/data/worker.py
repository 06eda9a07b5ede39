"""Worker processes of a loader: their loop, and how batches are returned.

A batch is pickled without its tensors; those go through a file in shared memory, which the receiver maps and removes:
they do not pass through the pipe, and are not copied on arrival. Small ones are part of the pickle."""

import glob
import io
import os
import pickle
import random
import signal
import sys
import tempfile
import traceback

from ... import _C

SMALL = 1 << 16  # bytes of tensors that are not worth a file
FOLDER = "/dev/shm" if os.path.isdir("/dev/shm") and os.access("/dev/shm", os.W_OK) else tempfile.gettempdir()


class WorkerInfo:
    """Which worker this is: id, num_workers, seed and its copy of the dataset."""

    def __init__(self, id, num_workers, seed, dataset):
        self.id, self.num_workers, self.seed, self.dataset = id, num_workers, seed, dataset

    def __repr__(self):
        return f"WorkerInfo(id={self.id}, num_workers={self.num_workers}, seed={self.seed})"


_info = None


def get_worker_info():
    """The WorkerInfo of this worker process, None in the main process."""
    return _info


class StreamEnd:
    """Sent by a worker when its copy of an IterableDataset is exhausted."""


class Failure:
    """An exception of a worker, as it is sent."""

    def __init__(self, error, where):
        self.type = type(error)
        self.text = f"Caught {self.type.__name__} in {where}.\nOriginal {''.join(traceback.format_exception(error))}"

    def reraise(self):
        # KeyError shows the repr of its message, which would put the traceback on one line.
        text = _Verbatim(self.text) if self.type is KeyError else self.text
        try:
            error = self.type(text)
        except Exception:  # a type with other arguments
            error = RuntimeError(text)
        # StopIteration would silently end the loop over the batches.
        raise RuntimeError(text) if isinstance(error, StopIteration) else error


class _Verbatim(str):
    def __repr__(self):
        return str(self)


class _Pickler(pickle.Pickler):
    def __init__(self, file, tensors):
        super().__init__(file, pickle.HIGHEST_PROTOCOL)
        self.tensors = tensors

    def persistent_id(self, obj):
        if type(obj) is not _C.Tensor or obj.requires_grad:
            return None
        self.tensors.append(obj)
        return len(self.tensors) - 1


class _Unpickler(pickle.Unpickler):
    def __init__(self, file, tensors):
        super().__init__(file)
        self.tensors = tensors

    def persistent_load(self, place):
        return self.tensors[str(place)]


def pack(batch, path):
    """A batch as bytes, and whether its tensors are in the file at path."""
    buffer, tensors = io.BytesIO(), []
    _Pickler(buffer, tensors).dump(batch)
    if sum(t.numel() * t.element_size() for t in tensors) > SMALL:
        try:
            _C._save_file({str(i): t for i, t in enumerate(tensors)}, path, None)
            return buffer.getvalue(), True
        except OSError:  # shared memory is full: through the pipe then
            pass
    return pickle.dumps(batch, pickle.HIGHEST_PROTOCOL), False


def unpack(data, path):
    """The batch packed by pack(); path is None if its tensors are in the bytes."""
    if path is None:
        return pickle.loads(data)
    tensors, _ = _C._load_file(path, True)  # no one else has the file
    os.unlink(path)
    return _Unpickler(io.BytesIO(data), tensors).load()


def remove_files(prefix):
    """Removes files that were sent and never received."""
    for path in glob.glob(glob.escape(prefix) + "*"):
        os.unlink(path)


def _seed(seed):
    _C.manual_seed(seed)
    random.seed(seed)
    if "numpy" in sys.modules:
        sys.modules["numpy"].random.seed(seed % 2**32)


def work(worker, workers, fetch, tasks, results, prefix, init, parent):
    """The worker's loop: ("epoch", seed) starts an epoch, (number, indices) requests a batch, None ends it."""
    global _info
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the main process handles Ctrl-C
    _C.set_num_threads(1)  # the workers are the parallelism; a thread pool does not survive fork
    where = f"DataLoader worker process {worker}"
    failure, ended = None, False
    while True:
        try:
            while not tasks.poll(2):
                if os.getppid() != parent:  # the main process is gone
                    return
            task = tasks.recv()
        except (EOFError, OSError):
            return
        if task is None:
            return
        number, what = task
        if number == "epoch":
            failure, ended = None, False
            try:
                _info = WorkerInfo(worker, workers, what + worker, fetch.dataset)
                _seed(what + worker)
                if init is not None:
                    init(worker)
                    init = None  # once in a worker's life
                fetch.start()
            except Exception as error:
                failure = Failure(error, f"{where} while starting")
            continue
        file = None
        try:
            if failure is None and not ended:
                batch = fetch(what)
                ended = batch is StreamEnd
                path = f"{prefix}{number}"
                data, in_file = pack(batch, path)
                file = path if in_file else None
            else:
                data = pickle.dumps(failure or StreamEnd)
        except Exception as error:
            data = _pickled_failure(error, f"{where}{getattr(error, '_strata_where', '')}")
        try:
            results.send((number, data, file))
        except (BrokenPipeError, OSError):
            return


def _pickled_failure(error, where):
    failure = Failure(error, where)
    try:
        return pickle.dumps(failure)
    except Exception:  # an exception class that only exists in the worker
        failure.type = RuntimeError
        return pickle.dumps(failure)
