"""Examines this machine: can its GPUs be used, and if not, why not and what to do."""

from . import _C


class Report:
    """What `strata.doctor()` has found. Prints as the command `strata doctor` does."""

    def __init__(self, answer, text, script):
        import json  # imported on first use, so that importing strata stays fast

        told = json.loads(answer)
        self.status = told["status"]  # 0: fine, 1: warnings, 2: a device cannot be used
        self.sections, self.checked, self.probed = told["sections"], told["checked"], told["probed"]
        self.facts, self.findings, self.probes = told["facts"], told["findings"], told["probes"]
        self.fix_hints = script
        self._text, self._json = text, answer

    ok = property(lambda self: self.status == 0, doc="Whether nothing was found.")
    ids = property(lambda self: [f["id"] for f in self.findings], doc="The ids of what was found.")

    def to_json(self):
        """The report as JSON, the same as `strata doctor --json`."""
        return self._json

    def __str__(self):
        return self._text.rstrip("\n")

    __repr__ = __str__

    def _repr_html_(self):
        from html import escape

        rows = "".join(
            f"<tr><td>{escape(f['severity'])}</td><td><code>{escape(f['id'])}</code></td><td>{escape(f['title'])}<br>"
            f"{escape('; '.join(f['evidence']))}</td><td><pre>{escape(f['fix'])}</pre></td></tr>"
            for f in self.findings
        )
        return f"<p>{self.checked} checks, {len(self.findings)} findings</p><table>{rows}</table>"


def _package_folders():
    import sys

    return [p for p in sys.path if p.rstrip("/").endswith(("site-packages", "dist-packages"))]


def doctor(
    *,
    sections=(),
    torch=False,
    probes=True,
    device=None,
    explain=None,
    root=None,
    environment=None,
    packages=None,
    architectures=None,
    timeout=20.0,
):
    """Examines the machine, as `strata doctor` does, and returns a report with findings and what to do.

    `sections` limits it to parts such as "driver" or "libraries"; `torch` also examines an installed PyTorch by running
    its interpreter. `probes` use a device once each (allocate, copy, launch, products, …): `device`, or cuda if it is
    there. With `root` the files below a folder are examined instead of this machine's, with `environment` in place of
    this process's variables, `packages` as folders of Python packages, and `architectures` ("80 90a") as those this
    build has machine code for. `explain` returns the text about a check or a topic ("legacy-macos") instead.
    """
    if explain is not None:
        return _C._doctor_explain(explain)
    if packages is None:
        packages = _package_folders() if root is None else ()
    sections = (sections,) if isinstance(sections, str) else tuple(sections)
    return Report(
        *_C._doctor(
            sections,
            torch,
            probes,
            "" if device is None else str(device),
            "" if root is None else str(root),
            environment if environment is not None or root is None else {},
            tuple(str(p) for p in packages),
            architectures,
            timeout,
        )
    )


class Listing(list):
    """Facts as dicts, which print as the table of the command."""

    def __init__(self, answer, text):
        import json

        super().__init__(json.loads(answer))
        self._text = text

    def __str__(self):
        return self._text.rstrip("\n")

    __repr__ = __str__

    def _repr_html_(self):
        from html import escape

        return f"<pre>{escape(str(self))}</pre>"


def devices(*, measure=False):
    """The devices of this machine, as dicts: names, limits, memories, nominal peaks; with `measure`, measured ones too.

    Prints as `strata devices --details` does.
    """
    return Listing(*_C._devices_list(measure))


def dtype_table():
    """Element types with bits, range and precision, computed from their codes; prints as a table."""
    return Listing(*_C._devices_dtypes())


def device_load():
    """What the devices do now, as dicts: percent of their time, memory in use, watts; None where it is not known."""
    import json

    return json.loads(_C._devices_load())
