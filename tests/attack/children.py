"""Runs numbered jobs in forked children, so that a crash or a hang costs one job and is identified by its number.

A child works through a range of numbers and stores the current one in shared memory. If it crashes or hangs, the parent
records the number and continues after it with a new child."""

import mmap
import os
import resource
import signal
import struct
import sys
import time
import traceback

CPU_SECONDS = 5.0  # a job may compute this long; counted in processor time, so that a busy machine changes nothing
DEAF_SECONDS = 2.0  # then it is interrupted as by Ctrl-C, and must end within this time
WALL_SECONDS = 60.0  # or wait this long
SANITIZED = "libasan" in os.environ.get("LD_PRELOAD", "")
MEMORY = 3 << 30  # bytes of address space a child may add


class Note:
    """Shared state of a child and its parent: the current number and the number of findings."""

    def __init__(self):
        self.map = mmap.mmap(-1, 4096)

    def put(self, number):
        self.map[0:8] = struct.pack("q", number)

    def number(self):
        return struct.unpack("q", self.map[0:8])[0]


def cpu_seconds(pid):
    with open(f"/proc/{pid}/stat") as f:
        fields = f.read().rsplit(")", 1)[1].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def limit_memory():
    with open("/proc/self/statm") as f:
        pages = int(f.read().split()[0])
    if not SANITIZED:  # a sanitizer maps terabytes
        resource.setrlimit(resource.RLIMIT_AS, (pages * 4096 + MEMORY,) * 2)
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))


class Child:
    """One forked process over numbers [first, last)."""

    def __init__(self, job, first, last, folder, prepare):
        self.note, self.last = Note(), last
        self.note.put(first)
        self.path = os.path.join(folder, f"{first}.txt")
        self.at, self.cpu, self.wall, self.interrupted = first, 0.0, time.monotonic(), False
        self.pid = os.fork()
        if self.pid == 0:
            self.work(job, first, last, prepare)

    def work(self, job, first, last, prepare):
        status = 1
        try:
            out = os.open(self.path, os.O_CREAT | os.O_WRONLY | os.O_APPEND, 0o600)
            quiet = os.open(os.devnull, os.O_RDWR)
            os.dup2(quiet, 0)
            os.dup2(quiet, 1)
            os.dup2(out, 2)
            signal.signal(signal.SIGINT, signal.default_int_handler)
            sys.stdout = open(os.devnull, "w")
            sys.stderr = sys.stdout
            prepare(first)
            limit_memory()
            for number in range(first, last):
                self.note.put(number)
                for finding in job(number):
                    os.write(out, f"FINDING {number} {finding}\n".encode(errors="replace"))
            self.note.put(last)
            status = 0
        except BaseException:
            os.write(
                2,
                f"FINDING {self.note.number()} the attack itself failed: {traceback.format_exc()[-1500:]!r}\n".encode(
                    errors="replace"
                ),
            )
        finally:
            os._exit(status)

    def poll(self):
        """None while it runs; otherwise (number to continue with, how it ended or None)."""
        pid, status = os.waitpid(self.pid, os.WNOHANG)
        if pid:
            if os.WIFSIGNALED(status):
                return self.note.number() + 1, f"died of {signal.Signals(os.WTERMSIG(status)).name}"
            return (
                (self.last, None)
                if os.WEXITSTATUS(status) == 0
                else (self.note.number() + 1, f"ended with status {os.WEXITSTATUS(status)}")
            )
        number, now, cpu = self.note.number(), time.monotonic(), cpu_seconds(self.pid)
        if number != self.at:
            self.at, self.cpu, self.wall, self.interrupted = number, cpu, now, False
        late = cpu - self.cpu - CPU_SECONDS
        if late > 0 and not self.interrupted:
            os.kill(self.pid, signal.SIGINT)
            self.interrupted = True
        if late > DEAF_SECONDS or now - self.wall > WALL_SECONDS:
            os.kill(self.pid, signal.SIGKILL)
            os.waitpid(self.pid, 0)
            return number + 1, f"hung: {cpu - self.cpu:.1f} s of processor time, {now - self.wall:.0f} s in all"
        return None

    def findings(self):
        with open(self.path, errors="replace") as f:
            text = f.read()
        os.unlink(self.path)
        return text


def run(job, count, folder, jobs=2, batch=200, progress=None, first=0, prepare=lambda number: None):
    """Calls job(number) for every number; returns a list of (number, finding). job returns or yields texts of findings.

    prepare(first number) runs in each new child before its memory is limited."""
    found, waiting, active, done = (
        [],
        [(n, min(n + batch, first + count)) for n in range(first, first + count, batch)][::-1],
        [],
        0,
    )
    while waiting or active:
        while waiting and len(active) < jobs:
            begin, end = waiting.pop()
            active.append(Child(job, begin, end, folder, prepare))
        time.sleep(0.01)
        for child in list(active):
            ended = child.poll()
            if ended is None:
                continue
            active.remove(child)
            go_on, how = ended
            text = child.findings()
            for line in text.splitlines():
                if line.startswith("FINDING "):
                    _, number, what = line.split(" ", 2)
                    found.append((int(number), what))
            if how and not any(n == go_on - 1 for n, what in found if "attack itself" in what):
                other = [line for line in text.splitlines() if not line.startswith("FINDING ")]
                found.append((go_on - 1, how + (": " + " | ".join(other[:12])[:800] if other else "")))
            if go_on < child.last:
                waiting.append((go_on, child.last))
            else:
                done += 1
                if progress:
                    progress(min(count, done * batch), len(found))
    return sorted(found)
