"""The command line as a whole: help with examples everywhere, completion, one shape of errors, colors."""

import json
import os
import pathlib
import pty
import re
import shutil
import subprocess

import pytest

ROOT = pathlib.Path(__file__).parents[2]
BUILD = pathlib.Path(os.environ.get("STRATA_BUILD_DIR", ROOT / "build" / "release"))
STRATA = BUILD / "bin" / "strata"


def run(*arguments, status=0, **environment):
    done = subprocess.run(
        [STRATA, *arguments], capture_output=True, text=True, env={**os.environ, **environment}, timeout=120
    )
    assert done.returncode == status, done.stdout + done.stderr
    return done.stdout if status == 0 else done.stderr


def commands():
    listed = run("--help").split("Subcommands:")[1].split("Example")[0]
    return [line.split()[0] for line in listed.splitlines() if re.match(r"  \w", line)]


def test_without_arguments_it_shows_five_things_that_work(tmp_path):
    said = run()
    lines = re.findall(r"^  strata (\S+)", said, re.M)
    assert len(lines) == 5 and set(lines) <= set(commands())


@pytest.mark.parametrize("command", commands())
def test_every_command_has_help_with_an_example(command):
    said = run(command, "--help")
    example = re.search(r"Example: (strata .*)", said)
    assert example and f"strata {command}" in example[1]
    assert said.strip() in run("help", command)


@pytest.mark.parametrize("command", sorted({"ops", "explain", "devices", "doctor", "libraries", "tune", "train"}))
def test_commands_that_print_facts_print_json_too(command):
    assert "--json" in run(command, "--help")


def test_help_has_the_pages_of_the_documentation():
    pages = sorted(p.stem for p in (ROOT / "docs/usage").glob("*.md"))
    listed = run("help")
    for page in pages:
        assert page in listed
        said = run("help", page)
        text = (ROOT / f"docs/usage/{page}.md").read_text()
        assert text.splitlines()[0].lstrip("# ") in said and "```" not in said
        assert len(said) > 0.6 * len(text)
    assert "there is no topic 'zork'" in run("help", "zork", status=1)


@pytest.mark.parametrize(
    "arguments",
    [["zork"], ["devices", "--zork"], ["completion"], ["completion", "csh"], ["train", "--lr", "x"]],
)
def test_errors_have_one_shape(arguments):
    said = run(*arguments, status=1)
    assert said.startswith("strata: ") and said.count("\n") == 1 and "--help" in said


def test_completion_for_bash_offers_commands_options_and_ops(tmp_path):
    script = tmp_path / "strata.bash"
    script.write_text(run("completion", "bash"))

    def offered(*words):
        code = f"""source {script}; strata() {{ {STRATA} "$@"; }}
        COMP_WORDS=({" ".join(words)}); COMP_CWORD={len(words) - 1}; _strata; printf '%s\\n' "${{COMPREPLY[@]}}" """
        return subprocess.run(["bash", "-c", code], capture_output=True, text=True, check=True).stdout.split()

    assert set(commands()) <= set(offered("strata", "''"))
    assert offered("strata", "doc") == ["doctor"]
    assert offered("strata", "devices", "--wat") == ["--watch"]
    assert offered("strata", "explain", "softma") == ["softmax"]
    assert offered("strata", "train", "--device", "v") == ["vgpu"]


@pytest.mark.parametrize("shell", ["zsh", "fish"])
def test_completion_for_other_shells(shell, tmp_path):
    script = run("completion", shell)
    for command in commands():
        assert command in script
    assert "--measure" in script or "-l measure" in script
    if shutil.which(shell):
        (tmp_path / "script").write_text(script)
        assert subprocess.run([shell, "-n", tmp_path / "script"]).returncode == 0


def on_a_terminal(*arguments, **environment):
    main, other = pty.openpty()
    child = subprocess.Popen([STRATA, *arguments], stdout=other, env={**os.environ, "TERM": "xterm", **environment})
    os.close(other)
    text = b""
    while True:
        try:
            piece = os.read(main, 4096)
        except OSError:
            break
        if not piece:
            break
        text += piece
    child.wait()
    os.close(main)
    return text.decode()


def test_colors_are_for_terminals_and_obey_no_color():
    environment = {"NO_COLOR": "", "CUDA_LAUNCH_BLOCKING": "1"}
    arguments = ("doctor", "--section", "environment")
    assert "\033[" in on_a_terminal(*arguments, **environment)
    assert "\033[" not in on_a_terminal(*arguments, **{**environment, "NO_COLOR": "1"})
    assert "\033[" not in on_a_terminal(*arguments, **{**environment, "TERM": "dumb"})
    assert (
        "\033["
        not in subprocess.run(
            [STRATA, *arguments], capture_output=True, text=True, env={**os.environ, **environment}
        ).stdout
    )
    assert "\033[" not in run("help", "tour")


def test_names_of_ops():
    names = run("ops", "--names").split()
    assert "add" in names and "conv2d" in names and len(names) > 300
    assert json.loads(run("ops", "conv2d", "--json"))[0]["name"] in names
