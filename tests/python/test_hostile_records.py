"""Arguments that every op rejects, generated from the records."""

import pytest
import signatures
import strata
from strata import _C

F = strata.nn.functional
RECORDS = [r for r in _C._records() if r["samples"]]


def sample(record, number=0):
    dtype = strata.float32 if strata.float32 in record["dtypes"] else record["dtypes"][0]
    return _C._sample(record["index"], record["samples"][number], dtype)


def parameters(record):
    """(type, name) of each parameter, from the schema."""
    return [(p.kind, p.name) for p in signatures.Schema(record["schema"]).params]


def test_none_in_a_list_of_tensors_is_refused():
    tried = 0
    for record in RECORDS:
        for kind, name in parameters(record):
            given = sample(record)
            if kind != "Tensor[]" or name not in given:
                continue
            for bad in (None, 1, "x", object()):
                with pytest.raises(TypeError):
                    _C.ops[record["name"]](**{**given, name: [*given[name], bad]})
            tried += 1
    assert tried > 20


def test_only_the_functions_that_pytorch_gives_it_take_inplace():
    takes = set()
    for record in RECORDS:
        if "inplace" in record["schema"]:  # rrelu has it as a parameter of its own
            continue
        for name in (record["name"], *record["aliases"]):
            try:
                _C.ops[name](**sample(record), inplace=True)
                takes.add(name)
            except TypeError as error:
                assert "inplace" in str(error), name
            except RuntimeError as error:  # a leaf, a dtype: the keyword was understood
                takes.add(name)
                assert "keyword" not in str(error)
    assert takes and all(name.startswith("nn.functional.") for name in takes), takes
    for name in ("relu", "dropout", "elu", "hardtanh", "leaky_relu", "threshold"):
        x = strata.tensor([-1.0, 2.0])
        extra = (0.0, 0.0) if name == "threshold" else ()
        assert getattr(F, name)(x, *extra, inplace=True) is x


def read_only(value):
    if isinstance(value, strata.Tensor) and value.dtype not in (strata.bfloat16, strata.float8_e4m3fn):
        array = value.detach().numpy().copy()
        array.flags.writeable = False
        return strata.from_numpy(array), [array]
    if isinstance(value, list) and value and isinstance(value[0], strata.Tensor):
        pairs = [read_only(v) for v in value]
        return [p[0] for p in pairs], [a for p in pairs for a in p[1]]
    return value, []


def test_no_op_changes_a_read_only_array():
    """Also through training statistics, optimizers, out= and in-place forms."""
    refused = 0
    for record in RECORDS:
        if record["random"]:
            continue
        for number in range(len(record["samples"])):
            given, arrays = {}, []
            for name, value in sample(record, number).items():
                given[name], own = read_only(value)
                arrays += own
            before = [a.tobytes() for a in arrays]
            for name in (record["name"], record["name"] + "_"):
                if name not in _C.ops:
                    continue
                try:
                    _C.ops[name](**given)
                except (RuntimeError, TypeError, ValueError, IndexError, NotImplementedError) as error:
                    refused += "read-only" in str(error)
            assert [a.tobytes() for a in arrays] == before, record["schema"]
    assert refused > 100


@pytest.mark.parametrize("name", ["SGD", "Adam", "AdamW", "Adagrad", "Adadelta", "RMSprop", "Rprop", "NAdam", "LBFGS"])
def test_optimizers_refuse_read_only_parameters(name):
    x, arrays = read_only(strata.ones(3))
    x.requires_grad_()
    optimizer = getattr(strata.optim, name)([x])

    def closure():
        x.grad = strata.ones(3)
        return (x * 1).sum()

    closure()
    with pytest.raises(RuntimeError, match="read-only"):
        optimizer.step(closure)
    assert arrays[0].tolist() == [1, 1, 1]


def test_gradients_and_statistics_in_read_only_memory_are_refused():
    x = strata.ones(3, requires_grad=True)
    x.grad, arrays = read_only(strata.ones(3))
    with pytest.raises(RuntimeError, match="read-only"):
        (x * 2).sum().backward()
    with pytest.raises(RuntimeError, match="read-only"):
        strata.nn.utils.clip_grad_norm_([x], 0.1)
    for norm in (F.batch_norm, F.instance_norm):
        mean, own = read_only(strata.zeros(3))
        images = strata.randn(4, 3, 5)
        with pytest.raises(RuntimeError, match="read-only"):
            norm(images, mean, mean + 1, **({"training": True} if norm is F.batch_norm else {}))
        arrays += own
        norm(images, mean, mean + 1, **({} if norm is F.batch_norm else {"use_input_stats": False}))
    assert arrays[0].tolist() == [1, 1, 1] and all(a.tolist() == [0, 0, 0] for a in arrays[1:])
