import json
import pathlib
import subprocess
import sys

SCRIPT = pathlib.Path(__file__).parents[2] / "tools" / "tidy_commands.py"


def test_sources_of_joined_files_without_precompiled_headers(tmp_path):
    joined = tmp_path / "Unity" / "unity_0_cxx.cxx"
    joined.parent.mkdir()
    joined.write_text('#include "/src/a.cpp"\n#include "/src/b.cpp"\n')
    flags = f"c++ -O2 -Winvalid-pch -include {tmp_path}/cmake_pch.hxx -std=c++20"
    rows = [dict(directory="/", file=f, command=f"{flags} -c {f}") for f in (str(joined), "/src/c.cpp")]
    (tmp_path / "compile_commands.json").write_text(json.dumps(rows))
    done = subprocess.run([sys.executable, SCRIPT, tmp_path], capture_output=True, text=True, check=True)
    commands = {row["file"]: row["command"] for row in json.loads(done.stdout)}
    assert commands == {f: f"c++ -O2 -std=c++20 -c {f}" for f in ("/src/a.cpp", "/src/b.cpp", "/src/c.cpp")}
