"""Graphs of composites as the ops inside: they hold for other values too, or the capture says why there is none."""

import pytest
import records
import strata
from compiled_programs import bits
from strata.export import Graph

# Their results are memory without values, or they change the shape of their argument itself.
OTHERS = ("empty", "new_empty", "resize", "squeeze_", "unsqueeze_", "t_", "transpose_")
RECORDS = [r for r in records.PUBLIC if r["samples"] and not r["name"].startswith(OTHERS)]
REFUSED = (RuntimeError, NotImplementedError, TypeError, ValueError, IndexError)


@pytest.mark.parametrize("device", ["cpu", "vgpu"])
@pytest.mark.parametrize("record", RECORDS, ids=records.label)
def test_samples_with_other_values(record, device):
    try:
        cases = [records.samples(record, strata.float32, seed) for seed in (0, 1)]
    except REFUSED:
        return
    for (text, first), (_, second) in zip(*cases, strict=True):

        def program(*tensors, arguments=first):
            rest = iter(tensors)
            given = records.map_tensors(lambda _: next(rest), arguments)
            return records.tensors(records.callable_of(record)(**given))

        values = [[t.detach().to(device) for t in records.tensors(given)] for given in (first, second)]
        with strata.no_grad():
            try:
                strata.manual_seed(1)
                want = program(*(t.clone() for t in values[1]))
                strata.manual_seed(1)
                graph = Graph.capture(program, [t.clone() for t in values[0]], composites=False)
            except REFUSED:
                continue  # values of the sample decide, or there is no kernel
            strata.manual_seed(1)
            try:
                got = graph.run([t.clone() for t in values[1]])
            except RuntimeError as error:
                assert "captured with" in str(error), text  # the shape depends on values, and a run notices it
                continue
        assert bits(got) == bits(want), f"{text}\n{graph}"
