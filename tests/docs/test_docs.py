"""Every code block of the docs runs, every link is valid, everything public has a doc; the reference is up to date.

Blocks: ```python runs, all of a page in one namespace; ```python raises Error must raise it; ```pycon is a doctest;
```cpp with a main() is compiled and run; ```cpp path and ```text path are excerpts of that file; `strata ...` lines of
```sh are run.
```output after a block is its expected output, where "..." matches anything and whitespace is ignored.
"""

import concurrent.futures
import contextlib
import doctest
import io
import multiprocessing
import os
import pathlib
import re
import shlex
import subprocess
import sys

import pytest
import strata
import strata.onnx
from strata import _C

ROOT = pathlib.Path(__file__).parent.parent.parent
BUILD = pathlib.Path(os.environ.get("STRATA_BUILD_DIR", ROOT / "build" / "release"))
REFERENCE = sorted((ROOT / "docs/reference").glob("*.md"))
PAGES = [ROOT / n for n in ("README.md", "ARCHITECTURE.md", "CONTRIBUTING.md", "CHANGELOG.md")]
PAGES += sorted((ROOT / "docs/usage").glob("*.md")) + sorted((ROOT / "docs/internals").glob("*.md"))
FENCE = re.compile(r"^```(\w+)[ ]?([^\n]*)\n(.*?)^```", re.M | re.S)


def blocks(page, language):
    """(first line, text after the language, contents) of each block."""
    text = page.read_text()
    for found in FENCE.finditer(text):
        if found[1] == language:
            yield text[: found.start()].count("\n") + 2, found[2].strip(), found[3]


def outputs(page):
    """The expected output of each block, by the first line of the block."""
    text, found = page.read_text(), list(FENCE.finditer(page.read_text()))
    return {
        text[: before.start()].count("\n") + 2: after[3]
        for before, after in zip(found, found[1:], strict=False)
        if after[1] == "output"
    }


def assert_printed(where, expected, printed):
    flags = doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE
    same = expected is None or doctest.OutputChecker().check_output(expected, printed, flags)
    assert same, f"{where} printed\n{printed}\nwhere the page has\n{expected}"


def name(value):
    return str(value.relative_to(ROOT)) if isinstance(value, pathlib.Path) else None


def having(language, pages=PAGES):
    return [p for p in pages if any(blocks(p, language))]


@pytest.fixture
def settings():
    """Restores settings that a page may change."""
    threads = strata.get_num_threads()
    yield
    strata.set_num_threads(threads)
    strata.set_memory_limit(None)
    strata.set_printoptions(profile="default")


@pytest.mark.parametrize("page", having("python"), ids=name)
def test_python_blocks_run(page, settings, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    if "import strata.torch_alias" not in page.read_text():
        return run_python_blocks(page)
    # The alias cannot be taken back: this page gets a process of its own.
    child = multiprocessing.get_context("fork").Process(target=run_python_blocks, args=(page,))
    child.start()
    child.join()
    assert child.exitcode == 0


def run_python_blocks(page):
    strata.manual_seed(0)  # random numbers of a page do not depend on the pages before it
    space, said = {"__name__": "docs"}, outputs(page)
    for line, kind, text in blocks(page, "python"):
        code = compile("\n" * (line - 1) + text, str(page), "exec")
        with contextlib.redirect_stdout(io.StringIO()) as printed:
            if kind.startswith("raises"):
                with pytest.raises(Exception) as caught:
                    exec(code, space)
                assert caught.type.__name__ == kind.split()[1], f"{page.name}:{line} raised {caught.value!r}"
            else:
                exec(code, space)
        assert_printed(f"{page.name}:{line}", said.get(line), printed.getvalue())


PROGRAMS = [(p, line, text) for p in PAGES for line, kind, text in blocks(p, "cpp") if "int main(" in text]


@pytest.fixture(scope="session")
def compiled(tmp_path_factory):
    """The C++ programs of the docs, compiled against the build tree: the compiler's output, and the file."""
    folder = tmp_path_factory.mktemp("docs")
    cache = BUILD / "CMakeCache.txt"
    found = re.search(r"^CMAKE_CXX_COMPILER:\w+=(.*)$", cache.read_text(), re.M) if cache.exists() else None
    compiler = found[1] if found else "c++"

    def build(number):
        source, program = folder / f"{number}.cpp", folder / str(number)
        source.write_text(PROGRAMS[number][2])
        paths = [f"-I{p}" for p in (ROOT / "include", ROOT / "src", BUILD / "gen")]
        link = [f"-L{BUILD}/lib", "-lstrata", f"-Wl,-rpath,{BUILD}/lib"]
        command = [compiler, "-std=c++20", *paths, source, "-o", program, *link]
        return subprocess.run(command, capture_output=True, text=True), program

    with concurrent.futures.ThreadPoolExecutor(int(os.environ.get("STRATA_JOBS", "2"))) as pool:
        return list(pool.map(build, range(len(PROGRAMS))))


@pytest.mark.parametrize("number", range(len(PROGRAMS)), ids=lambda n: f"{PROGRAMS[n][0].stem}:{PROGRAMS[n][1]}")
def test_cpp_programs_run(number, compiled):
    done, program = compiled[number]
    assert done.returncode == 0, done.stderr
    ran = subprocess.run([program], capture_output=True, text=True, cwd=program.parent)
    assert ran.returncode == 0, ran.stdout + ran.stderr
    page, line, _ = PROGRAMS[number]
    assert_printed(f"{page.name}:{line}", outputs(page).get(line), ran.stdout)


EXCERPTS = [
    (p, line, kind, text)
    for p in PAGES
    for language in ("cpp", "text")
    for line, kind, text in blocks(p, language)
    if "/" in kind
]


@pytest.mark.parametrize("page, line, file, text", EXCERPTS, ids=[f"{p.stem}:{n}" for p, n, _, _ in EXCERPTS])
def test_excerpts_are_true(page, line, file, text):
    def words(source):
        return re.sub(r"\s+", "", source)

    assert words(text) in words((ROOT / file).read_text()), f"{page.name}:{line}: {file} reads otherwise now"


COMMANDS = sorted(
    {c for p in PAGES for _, _, text in blocks(p, "sh") for c in text.splitlines() if c.startswith("strata ")}
)


# The file that commands call model.py.
NETWORK = """from strata import nn


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.convolution = nn.Conv2d(3, 8, 3)

    def forward(self, x):
        return self.convolution(x).relu()
"""


@pytest.fixture(scope="module")
def inference_files(tmp_path_factory):
    """net.onnx and net.plan, for commands that name them."""
    from strata import engine, nn

    folder = tmp_path_factory.mktemp("inference")
    net = nn.Sequential(nn.Conv2d(3, 8, 3), nn.ReLU()).eval()
    model = folder / "net.onnx"
    example = (strata.randn(2, 3, 16, 16),)
    strata.onnx.export(net, example, model, input_names=["x"], dynamic_axes={"x": {0: "batch"}})
    shapes = tuple((n, 3, 16, 16) for n in (1, 8, 32))
    engine.build(model, profiles={"x": shapes}, level=0).save(folder / "net.plan")
    return [model, folder / "net.plan"]


@pytest.mark.parametrize("command", COMMANDS)
def test_shell_commands_run(command, tmp_path, inference_files):
    words = shlex.split(command, comments=True)
    (tmp_path / "model.py").write_text(NETWORK)
    for file in inference_files:
        if file.name in words:
            (tmp_path / file.name).write_bytes(file.read_bytes())
    done = subprocess.run([BUILD / "bin" / words[0], *words[1:]], capture_output=True, text=True, cwd=tmp_path)
    found_on_this_machine = (0, 1, 2) if words[1] == "doctor" else (0,)
    assert done.returncode in found_on_this_machine, done.stderr
    assert done.stdout


@pytest.mark.parametrize("page", PAGES + REFERENCE, ids=name)
def test_links_lead_somewhere(page):
    for target in re.findall(r"\]\(([^)#\s]+)(?:#[^)]*)?\)", page.read_text()):
        assert target.startswith("http") or (page.parent / target).exists(), f"{page.name}: {target}"


# --- the reference ---------------------------------------------------------------------------------------------------


def test_reference_is_up_to_date():
    command = [sys.executable, ROOT / "tools/gen_docs.py", "--check"]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize("page", REFERENCE, ids=name)
def test_reference_examples_run(page):
    strata.manual_seed(0)
    for line, _, text in blocks(page, "python"):
        exec(compile("\n" * (line - 1) + text, str(page), "exec"), {"strata": strata})
    for line, _, text in blocks(page, "pycon"):
        test = doctest.DocTestParser().get_doctest(text, {"strata": strata}, page.name, str(page), line)
        said = io.StringIO()
        assert doctest.DocTestRunner(verbose=False).run(test, out=said.write).failed == 0, said.getvalue()


@pytest.mark.parametrize(
    "record", [r for r in _C._records() if not r["internal"]], ids=lambda r: r["schema"].split("(")[0]
)
def test_every_op_has_a_doc(record):
    assert record["doc"].strip().partition("\n")[0].endswith((".", ":", ")")), record["doc"]


@pytest.mark.parametrize(
    "module",
    [
        strata,
        strata.nn,
        strata.nn.functional,
        strata.nn.init,
        strata.nn.utils,
        strata.nn.utils.rnn,
        strata.linalg,
        strata.special,
        strata.autograd,
        strata.random,
        strata.utils.checkpoint,
    ],
    ids=lambda m: m.__name__,
)
def test_every_function_has_a_doc(module):
    public = getattr(module, "__all__", None) or [n for n in vars(module) if not n.startswith("_")]
    without = [n for n in public if callable(getattr(module, n)) and not getattr(module, n).__doc__]
    assert [n for n in without if n not in ("Generator", "Size", "Tensor", "device", "dtype")] == []


def test_all_pages_count_the_ops_of_the_reference():
    listed = int(re.search(r"The (\d+) ops by group", (ROOT / "docs/reference/index.md").read_text())[1])
    claims = {(p.name, int(n)) for p in PAGES for n in re.findall(r"\b[Aa]bout (\d+) ops\b", p.read_text())}
    assert {"README.md", "CHANGELOG.md"} <= {page for page, _ in claims}
    wrong = [f"{page} says about {n}" for page, n in claims if n != round(listed, -1)]
    assert wrong == [], f"the reference lists {listed} ops"


def test_the_readme_lists_the_slower_cases():
    check = subprocess.run(
        [sys.executable, str(ROOT / "bench/readme_rows.py"), "--check"], capture_output=True, text=True, check=False
    )
    assert check.returncode == 0, check.stderr
