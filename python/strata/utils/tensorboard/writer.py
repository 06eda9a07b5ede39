"""SummaryWriter: scalars, histograms, images, texts and hyperparameters in an event file."""

import os
import socket
import struct
import threading
import time
import zlib

from . import records as pb

__all__ = ["FileWriter", "SummaryWriter"]


class FileWriter:
    """Appends events to one file, events.out.tfevents.<time>.<host>."""

    def __init__(self, log_dir, max_queue=10, flush_secs=120, filename_suffix=""):
        os.makedirs(log_dir, exist_ok=True)
        self._folder, self._lock = str(log_dir), threading.Lock()
        name = (
            f"events.out.tfevents.{int(time.time()):010d}.{socket.gethostname()}.{os.getpid()}.{time.time_ns() % 10**9}"
        )
        self._file = open(os.path.join(self._folder, name + filename_suffix), "ab")
        self._write(pb.double(1, time.time()) + pb.data(3, "brain.Event:2"))

    def get_logdir(self):
        """The folder."""
        return self._folder

    def _write(self, event):
        with self._lock:
            if self._file.closed:
                raise ValueError("SummaryWriter: the writer is closed; create another")
            self._file.write(pb.frame(event))

    def add_summary(self, value, step=None, walltime=None):
        """One Summary.Value message as an event."""
        event = pb.double(1, time.time() if walltime is None else walltime)
        if step is not None:
            event += pb.integer(2, int(step))
        self._write(event + pb.data(5, pb.data(1, value)))

    def flush(self):
        """Writes everything to the disk."""
        with self._lock:
            if not self._file.closed:
                self._file.flush()

    def close(self):
        """Ends the file."""
        with self._lock:
            self._file.close()


def _array(values):
    """A NumPy array of a tensor, an array, a list or a number."""
    import numpy as np

    return values.detach().cpu().numpy() if hasattr(values, "detach") else np.asarray(values)


def _histogram(values, bins):
    import numpy as np

    flat = _array(values).astype(np.float64).ravel()
    if flat.size == 0:
        raise ValueError("The input has no element.")
    if isinstance(bins, str):  # TensorFlow's limits grow by a tenth; other names are NumPy's rules
        bins = np.histogram_bin_edges(flat, bins="auto" if bins == "tensorflow" else bins)
    counts, limits = np.histogram(flat, bins=bins)
    stats = [flat.min(), flat.max(), flat.size, flat.sum(), (flat * flat).sum()]
    message = b"".join(pb.double(i + 1, float(v)) for i, v in enumerate(stats))
    return message + pb.doubles(6, limits[1:].tolist()) + pb.doubles(7, counts.astype(float).tolist())


def _png(pixels):
    """The bytes of a PNG file of uint8 pixels [height, width, channels]."""
    height, width, channels = pixels.shape
    kind = {1: 0, 2: 4, 3: 2, 4: 6}[channels]

    def chunk(name, content):
        return struct.pack(">I", len(content)) + name + content + struct.pack(">I", zlib.crc32(name + content))

    rows = b"".join(b"\0" + pixels[y].tobytes() for y in range(height))
    head = struct.pack(">IIBBBBB", width, height, 8, kind, 0, 0, 0)
    return b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", head) + chunk(b"IDAT", zlib.compress(rows)) + chunk(b"IEND", b"")


def _pixels(image, dataformats):
    """uint8 [height, width, channels] of an image whose dimensions are named; images of a batch side by side."""
    import numpy as np

    array = _array(image)
    if len(dataformats) != array.ndim:
        raise ValueError(f"size of input tensor and input format are different: {array.shape} and {dataformats}")
    names = dataformats.upper()
    if "C" not in names:
        array, names = array[..., None], names + "C"
    if "N" in names:
        order = [names.index(d) for d in "HNWC"]
        array = array.transpose(order)
        array = array.reshape(array.shape[0], -1, array.shape[-1])
    else:
        array = array.transpose([names.index(d) for d in "HWC"])
    if array.dtype != np.uint8:
        array = (array.astype(np.float64) * 255).clip(0, 255).astype(np.uint8)
    return np.ascontiguousarray(array)


class SummaryWriter:
    """Writes what a training run reports into `log_dir`, by default runs/<time>_<host><comment>.

    >>> writer = SummaryWriter(log_dir)
    >>> writer.add_scalar("loss", 0.5, global_step=1)
    >>> writer.close()
    """

    def __init__(self, log_dir=None, comment="", purge_step=None, max_queue=10, flush_secs=120, filename_suffix=""):
        if not log_dir:
            log_dir = os.path.join("runs", time.strftime("%b%d_%H-%M-%S_") + socket.gethostname() + comment)
        self.log_dir, self.filename_suffix = str(log_dir), filename_suffix
        self.file_writer, self.all_writers = FileWriter(log_dir, filename_suffix=filename_suffix), {}

    def _add(self, tag, message, step, walltime, metadata=b""):
        value = pb.data(1, tag) + (pb.data(9, metadata) if metadata else b"") + message
        self.file_writer.add_summary(value, step, walltime)

    def add_scalar(self, tag, scalar_value, global_step=None, walltime=None, new_style=False, double_precision=False):
        """A number over the steps."""
        self._add(tag, pb.single(2, float(scalar_value)), global_step, walltime)

    def add_scalars(self, main_tag, tag_scalar_dict, global_step=None, walltime=None):
        """Several numbers in one chart: each in a folder of its own, as TensorBoard expects."""
        for tag, number in tag_scalar_dict.items():
            folder = os.path.join(self.log_dir, f"{main_tag.replace('/', '_')}_{tag}")
            if folder not in self.all_writers:
                self.all_writers[folder] = FileWriter(folder, filename_suffix=self.filename_suffix)
            value = pb.data(1, main_tag) + pb.single(2, float(number))
            self.all_writers[folder].add_summary(value, global_step, walltime)

    def add_histogram(self, tag, values, global_step=None, bins="tensorflow", walltime=None, max_bins=None):
        """The distribution of many numbers."""
        self._add(tag, pb.data(5, _histogram(values, bins)), global_step, walltime)

    def add_image(self, tag, img_tensor, global_step=None, walltime=None, dataformats="CHW"):
        """An image: uint8, or floats from 0 to 1."""
        pixels = _pixels(img_tensor, dataformats)
        height, width, channels = pixels.shape
        message = pb.integer(1, height) + pb.integer(2, width) + pb.integer(3, channels) + pb.data(4, _png(pixels))
        self._add(tag, pb.data(4, message), global_step, walltime)

    def add_images(self, tag, img_tensor, global_step=None, walltime=None, dataformats="NCHW"):
        """A batch of images, side by side."""
        self.add_image(tag, img_tensor, global_step, walltime, dataformats)

    def add_figure(self, tag, figure, global_step=None, close=True, walltime=None):
        """A figure of Matplotlib as an image."""
        import numpy as np

        figure.canvas.draw()
        self.add_image(tag, np.asarray(figure.canvas.buffer_rgba()), global_step, walltime, "HWC")

    def add_text(self, tag, text_string, global_step=None, walltime=None):
        """A text, shown as Markdown."""
        tensor = pb.integer(1, 7) + pb.data(2, pb.data(2, pb.integer(1, 1))) + pb.data(8, text_string)
        plugin = pb.data(1, pb.data(1, "text"))
        self._add(f"{tag}/text_summary", pb.data(8, tensor), global_step, walltime, plugin)

    def add_hparams(self, hparam_dict, metric_dict, hparam_domain_discrete=None, run_name=None, global_step=None):
        """Hyperparameters as a text, results as scalars."""
        table = "\n".join(["|name|value|", "|-|-|", *(f"|{k}|{v}|" for k, v in hparam_dict.items())])
        self.add_text("hparams", table, global_step)
        for name, number in metric_dict.items():
            self.add_scalar(name, number, global_step)

    def add_graph(self, model, input_to_model=None, verbose=False, use_strict_trace=True):
        """The printed module as a text: there is no traced graph."""
        self.add_text("graph", "    " + repr(model).replace("\n", "\n    "))

    def flush(self):
        """Writes everything to the disk."""
        for writer in (self.file_writer, *self.all_writers.values()):
            writer.flush()

    def close(self):
        """Ends the files."""
        for writer in (self.file_writer, *self.all_writers.values()):
            writer.close()

    def get_logdir(self):
        """The folder."""
        return self.log_dir

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()


def _refuse(name, instead):
    def method(self, *args, **kwargs):
        raise NotImplementedError(f"SummaryWriter.{name} is not in this version of Strata; {instead}")

    method.__name__, method.__doc__ = name, "Raises: this kind of summary is not written."
    setattr(SummaryWriter, name, method)


for _names, _instead in {
    "add_embedding": "save the matrix with save()",
    "add_mesh": "save the points with save()",
    "add_tensor": "save it with save(), or use add_histogram()",
    "add_video": "use add_image() for frames",
    "add_audio": "save the samples with save()",
    "add_onnx_graph": "use add_graph(), which writes the printed module",
    "add_pr_curve add_pr_curve_raw": "draw the curve and use add_figure()",
    "add_histogram_raw": "use add_histogram()",
    "add_custom_scalars add_custom_scalars_multilinechart add_custom_scalars_marginchart": "use add_scalars()",
}.items():
    for _name in _names.split():
        _refuse(_name, _instead)
