"""What the rules of accepted.py may ask about a program in which both sides differ."""

import re

import numpy as np


class Program:
    """What a condition may ask: the lines so far, the line at hand, the variables of both sides and the difference; and runs of the
    program anew. `compare` yields the differences between two executors."""

    def __init__(self, lines, line, ours, other, difference, compare):
        self.lines, self.line, self.ours, self.other = lines, line, ours, other
        self.space, self.theirs, self.difference, self.compare = ours.space, other.space, difference, compare

    def names(self, line=None):
        """The variables that the line names, except the one it makes."""
        line = self.line if line is None else line
        made = re.match(r"(v\d+) = ", line)
        return set(re.findall(r"\bv\d+\b", line)) - ({made[1]} if made else set())

    def asked_for(self):
        """The variable whose gradient differs: of "v3.grad: …" and of "grads[1]: …" where grad() was called with variables; else None."""
        if m := re.match(r"(v\d+)\.grad\b", self.difference):
            return m[1]
        place = re.match(r"grads\[(\d+)\]", self.difference)
        asked = re.search(r"grad\(loss, \[(v\d+(?:, v\d+)*)\]", self.line)
        names = asked[1].split(", ") if asked else []
        return names[int(place[1])] if place and int(place[1]) < len(names) else None

    def all_names(self):
        return [name for name in self.space if re.fullmatch(r"v\d+", name)]

    def operands(self):
        return [self.space[n] for n in self.names()]

    def used(self, *ops):
        return any(re.search(rf"\b{op}_?\(", line) for op in ops for line in [*self.lines, self.line])

    def again(self, change, refused=None):
        """Both sides after the program with changed lines (None: left out). A side that refuses a line is None, and its exception goes
        into the list `refused`."""
        sides = []
        for side in (self.ours, self.other):
            fresh = side.fresh()
            errors = (fresh.run(text) for line in [*self.lines, self.line] if (text := change(line)))
            error = next((e for e in errors if e is not None), None)
            sides.append(None if error else fresh)
            if error and refused is not None:
                refused.append(error)
        return sides

    def in_double(self):
        """Both sides after the program with leaves of float64 instead of narrower floating-point ones; integers turn into float64 too."""
        sides = []
        for side in (self.ours, self.other):
            fresh, before = side.fresh(), side.module.get_default_dtype()
            fresh.data = [(shape, "float64" if "float" in dtype else dtype, *rest) for shape, dtype, *rest in side.data]
            side.module.set_default_dtype(side.module.float64)
            try:
                failed = any(fresh.run(line) is not None for line in [*self.lines, self.line])
            finally:
                side.module.set_default_dtype(before)
            sides.append(None if failed else fresh)
        return sides

    def nearby(self):
        """Our side after the program with leaves that are some rounding errors away; None if a line refuses them."""
        fresh = self.ours.fresh()
        rng = np.random.default_rng(7)
        fresh.data = [
            (shape, dtype, wants, (np.asarray(numbers) * (1 + 8e-16 * rng.uniform(-1, 1, len(numbers)))).tolist())
            if dtype == "float64"
            else (shape, dtype, wants, numbers)
            for shape, dtype, wants, numbers in self.ours.data
        ]
        return None if any(fresh.run(line) is not None for line in [*self.lines, self.line]) else fresh

    def at(self, pattern):
        """Runs our side anew: (line, values of its variables before it, result) of each line that fits."""
        fresh = self.ours.fresh()
        for line in [*self.lines, self.line]:
            fits = re.search(pattern, line)
            values = [fresh.space[n].detach().clone() for n in sorted(self.names(line))] if fits else []
            if fresh.run(line) is not None:
                return
            made = re.match(r"(v\d+) = ", line)
            if fits:
                yield line, values, fresh.space[made[1]].detach() if made else None

    def shapes_at(self, pattern):
        for _, values, _ in self.at(pattern):
            yield [tuple(t.shape) for t in values]

    def met(self, ops):
        """One of the ops (name: condition on values and result) ran where its condition holds."""
        return any(holds(v, r) for op, holds in ops.items() for _, v, r in self.at(rf"\b{op}_?\("))
