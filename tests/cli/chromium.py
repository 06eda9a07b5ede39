"""Pages as Chromium shows them, without a network: what is in them after their scripts have run, and what the console says."""

import json
import pathlib
import shutil
import subprocess
from html import escape, unescape

FLAGS = ["--headless", "--no-sandbox", "--disable-gpu", "--hide-scrollbars", "--enable-logging=stderr", "--v=0"]


def shown(page, folder, probe, width=1200, dark=False):
    """The JSON value of the JavaScript expression `probe` in a frame of that width, and the errors of the console."""
    chromium = shutil.which("chromium") or shutil.which("google-chrome")
    assert chromium, "these tests need Chromium: apt-get install chromium, or tools/setup"
    outer = pathlib.Path(folder) / f"outer-{width}-{dark}.html"
    text = pathlib.Path(page).read_text()
    outer.write_text(
        f'<!doctype html><iframe id="f" style="width:{width}px;height:900px;border:0" srcdoc="{escape(text)}"></iframe>'
        '<pre id="result"></pre><script>const f = document.getElementById("f");'
        "f.onload = () => setTimeout(() => { const page = f.contentWindow, document = page.document; let value;"
        f"try {{ value = (() => {{ {probe} }})(); }} catch (e) {{ value = String(e); }}"
        'window.document.getElementById("result").textContent = JSON.stringify(value); }, 50);</script>'
    )
    done = subprocess.run(
        [
            chromium,
            *FLAGS,
            f"--user-data-dir={folder}/profile",
            f"--blink-settings=preferredColorScheme={0 if dark else 1}",
            "--virtual-time-budget=3000",
            f"--window-size={max(width + 20, 520)},900",
            "--dump-dom",
            f"file://{outer}",
        ],
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    found = done.stdout.rpartition('<pre id="result">')[2].partition("</pre>")[0]
    errors = [line for line in done.stderr.splitlines() if ":CONSOLE" in line]
    assert found, done.stderr[-2000:]
    return json.loads(unescape(found)), errors
