"""TransformerEncoder and MultiheadAttention without the rows of padding."""

import warnings

import pytest
import strata
import strata.nn as nn

devices = pytest.mark.parametrize("device", ["cpu", "vgpu"])
LENGTHS = [5, 3, 1]


def encoder(device="cpu", norm=None, **options):
    strata.manual_seed(3)
    layer = nn.TransformerEncoderLayer(8, 2, 16, batch_first=True)
    return nn.TransformerEncoder(layer, 2, norm, **options).to(device).eval()


def batch(device="cpu"):
    strata.manual_seed(4)
    mask = strata.arange(5) >= strata.tensor(LENGTHS).unsqueeze(1)
    return strata.randn(3, 5, 8).to(device), mask.to(device)


@devices
@pytest.mark.parametrize("float_mask", [False, True])
def test_padded_rows_are_zero(device, float_mask):
    model, (x, mask) = encoder(device), batch(device)
    full = model(x, src_key_padding_mask=mask)  # with gradients
    given = strata.zeros(3, 5, device=device).masked_fill(mask, -strata.inf) if float_mask else mask
    with strata.no_grad():
        out = model(x, src_key_padding_mask=given)
    assert out.shape == x.shape and (out[mask] == 0).all() and (full[mask] != 0).any()
    assert strata.allclose(out[~mask], full[~mask], atol=1e-5)


def test_the_last_norm_sees_the_zeros():
    norm = nn.LayerNorm(8)
    nn.init.constant_(norm.bias, 2.0)
    x, mask = batch()
    with strata.no_grad():
        out = encoder(norm=norm)(x, src_key_padding_mask=mask)
    assert (out[mask] == 2).all()


def test_all_rows_are_computed_where_pytorch_computes_them():
    x, mask = batch()
    model = encoder()
    model.train()
    for dropout in (m for m in model.modules() if isinstance(m, nn.Dropout)):
        dropout.p = 0.0
    scattered = mask.flip(1)
    with strata.no_grad():
        assert (model(x, src_key_padding_mask=mask)[mask] != 0).any()  # in training
        model.eval()
        assert (model(x, src_key_padding_mask=scattered)[scattered] != 0).any()  # padding first
        square = nn.Transformer.generate_square_subsequent_mask(5)
        assert (model(x, square, mask)[mask] != 0).any()
        assert (encoder(enable_nested_tensor=False)(x, src_key_padding_mask=mask)[mask] != 0).any()
        strata.backends.mha.set_fastpath_enabled(False)
        try:
            assert (model(x, src_key_padding_mask=mask)[mask] != 0).any()
        finally:
            strata.backends.mha.set_fastpath_enabled(True)
        assert (model(x, src_key_padding_mask=mask)[mask] == 0).all()


def test_layers_that_cannot_skip_padding_are_named():
    for options, reason in (
        ({}, "batch_first was not True"),
        ({"batch_first": True, "norm_first": True}, "norm_first was True"),
        ({"batch_first": True, "bias": False}, "bias=False"),
        ({"batch_first": True, "activation": strata.tanh}, "activation_relu_or_gelu"),
    ):
        with pytest.warns(UserWarning, match=reason):
            model = nn.TransformerEncoder(nn.TransformerEncoderLayer(8, 2, 16, **options), 1)
        assert model.enable_nested_tensor and not model.use_nested_tensor
    with pytest.warns(UserWarning, match="num_heads is odd"):
        nn.TransformerEncoder(nn.TransformerEncoderLayer(9, 3, 16, batch_first=True), 1)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        nn.TransformerEncoder(nn.TransformerEncoderLayer(8, 2, 16), 1, enable_nested_tensor=False)
        encoder()


@devices
def test_attention_of_nested_tensors(device):
    strata.manual_seed(1)
    attention = nn.MultiheadAttention(8, 2, batch_first=True).to(device)
    parts = [strata.randn(n, 8, device=device) for n in LENGTHS]
    x = strata.nested.as_nested_tensor(parts)
    out, weights = attention(x, x, x, need_weights=False)
    want = [attention(p.unsqueeze(0), p.unsqueeze(0), p.unsqueeze(0))[0][0] for p in parts]
    assert weights is None
    for g, w in zip(out.unbind(), want, strict=True):
        assert strata.allclose(g, w, atol=1e-5)
    y = strata.nested.as_nested_tensor([strata.randn(2, 8, device=device) for _ in parts])
    crossed, _ = attention(y, x, x, need_weights=False)
    for g, q, p in zip(crossed.unbind(), y.unbind(), parts, strict=True):
        assert strata.allclose(g, attention(*(t.unsqueeze(0) for t in (q, p, p)))[0][0], atol=1e-5)
    out.values().square().sum().backward()
    assert (attention.in_proj_weight.grad != 0).any()


def test_attention_of_nested_tensors_takes_no_masks():
    x = strata.nested.nested_tensor([strata.ones(2, 8), strata.ones(3, 8)])
    with pytest.raises(NotImplementedError, match="need_weights=False"):
        nn.MultiheadAttention(8, 2, batch_first=True)(x, x, x)
    with pytest.raises(NotImplementedError, match="batch_first=True"):
        nn.MultiheadAttention(8, 2)(x, x, x, need_weights=False)
    with pytest.raises(TypeError, match="expected a bool"):
        strata.backends.mha.set_fastpath_enabled(1)
