"""Ops on arrays: values, types, batches."""
import numpy as np
import pytest

import clora
from clora import ops

ml_dtypes = pytest.importorskip("ml_dtypes")
random = np.random.default_rng(0)


def normal(*shape):
    return random.normal(size=shape).astype(np.float32)


def test_products_are_those_of_numpy():
    x, w, bias, residual = normal(7, 64), normal(48, 64), normal(48), normal(7, 48)
    np.testing.assert_allclose(ops.gemm(x, w), x @ w.T, rtol=1e-4, atol=1e-4)
    np.testing.assert_allclose(ops.gemm(x, w, bias=bias, residual=residual),
                               x @ w.T + bias + residual, rtol=1e-4, atol=1e-4)
    np.testing.assert_allclose(ops.gemm_backward(residual, w), residual @ w, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("fused", [True, False])
def test_adapted_layers_are_those_of_the_formula(fused):
    x, w, a, bt = normal(9, 64), normal(48, 64), normal(8, 64), normal(8, 48)
    y, s = ops.lora_linear(x, w, a, bt, scale=0.5, fused=fused)
    np.testing.assert_allclose(s, x @ a.T, rtol=1e-4, atol=1e-4)
    np.testing.assert_allclose(y, x @ w.T + 0.5 * (x @ a.T) @ bt, rtol=1e-3, atol=1e-3)


def test_gradients_of_adapted_layers_are_those_of_the_formula():
    x, w, a, bt, dy = normal(9, 64), normal(48, 64), normal(8, 64), normal(8, 48), normal(9, 48)
    s = x @ a.T
    dx, da, dbt = ops.lora_linear_backward(dy, x, s, w, a, bt, scale=0.5)
    ds = 0.5 * dy @ bt.T
    np.testing.assert_allclose(dbt, 0.5 * s.T @ dy, rtol=1e-3, atol=1e-3)
    np.testing.assert_allclose(da, ds.T @ x, rtol=1e-3, atol=1e-3)
    np.testing.assert_allclose(dx, dy @ w + ds @ a, rtol=1e-3, atol=1e-3)


def test_norms_are_those_of_the_formula():
    x, w, bias = normal(5, 96), normal(96), normal(96)
    root = np.sqrt((x**2).mean(-1, keepdims=True) + 1e-6)
    np.testing.assert_allclose(ops.rms_norm(x, w), x / root * w, rtol=1e-4, atol=1e-5)
    centred = x - x.mean(-1, keepdims=True)
    expected = centred / np.sqrt(centred.var(-1, keepdims=True) + 1e-5) * w + bias
    np.testing.assert_allclose(ops.layer_norm(x, w, bias), expected, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("name", ["rms_norm", "layer_norm", "softmax", "swiglu"])
def test_backwards_are_the_central_differences(name):
    x, w, dy, step = normal(3, 32), normal(32), normal(3, 32), 1e-2
    up = normal(3, 32)
    forward = {"rms_norm": lambda x: ops.rms_norm(x, w),
               "layer_norm": lambda x: ops.layer_norm(x, w, w),
               "softmax": ops.softmax, "swiglu": lambda x: ops.swiglu(x, up)}[name]
    backward = {"rms_norm": lambda: ops.rms_norm_backward(dy, x, w),
                "layer_norm": lambda: ops.layer_norm_backward(dy, x, w),
                "softmax": lambda: ops.softmax_backward(dy, ops.softmax(x)),
                "swiglu": lambda: ops.swiglu_backward(dy, x, up)[0]}[name]
    direction = normal(3, 32)
    difference = (forward(x + step * direction) - forward(x - step * direction)) / (2 * step)
    assert (backward() * direction).sum() == pytest.approx((dy * difference).sum(), rel=2e-2)


def test_rows_of_other_ops_are_those_of_numpy():
    x = normal(4, 33)
    shifted = np.exp(x - x.max(-1, keepdims=True))
    np.testing.assert_allclose(ops.softmax(x), shifted / shifted.sum(-1, keepdims=True), atol=1e-6)
    t = normal(4, 33)
    np.testing.assert_allclose(ops.add(x, t, factor=2), x + 2 * t, rtol=1e-6, atol=1e-6)
    np.testing.assert_allclose(ops.swiglu(x, t), x / (1 + np.exp(-x)) * t, rtol=1e-4, atol=1e-5)
    table = normal(11, 32)
    ids = np.array([3, 0, 10])
    np.testing.assert_array_equal(ops.embedding(ids, table), table[ids])


def test_rope_rotates_by_the_angle_of_the_position():
    x = normal(6, 2, 16)
    table = ops.rope_table(32, 16)
    y = ops.rope(x, np.arange(6), table)
    cos, sin = table[:6, None, :, 0], table[:6, None, :, 1]
    first, second = x[..., :8], x[..., 8:]
    expected = np.concatenate([first * cos - second * sin, first * sin + second * cos], -1)
    np.testing.assert_allclose(y, expected, atol=1e-5)
    np.testing.assert_allclose(ops.rope(y, np.arange(6), table, backward=True), x, atol=1e-5)


def reference_attention(q, k, v):
    heads, groups = q.shape[1], k.shape[1]
    k, v = (np.repeat(each, heads // groups, axis=1) for each in (k, v))
    scores = np.einsum("the,she->hts", q, k) / np.sqrt(q.shape[-1])
    scores = np.where(np.tri(len(q), len(k), dtype=bool), scores, -np.inf)
    p = np.exp(scores - scores.max(-1, keepdims=True))
    return np.einsum("hts,she->the", p / p.sum(-1, keepdims=True), v)


def test_attention_is_causal_and_grouped():
    q, k, v = normal(10, 4, 32), normal(10, 2, 32), normal(10, 2, 32)
    y, log_sum_exp = ops.attention(q, k, v)
    np.testing.assert_allclose(y, reference_attention(q, k, v), rtol=1e-3, atol=1e-4)
    dy, step, direction = normal(10, 4, 32), 1e-2, normal(10, 2, 32)
    dv = ops.attention_backward(dy, y, log_sum_exp, q, k, v)[2]
    difference = (reference_attention(q, k, v + step * direction) -
                  reference_attention(q, k, v - step * direction)) / (2 * step)
    assert (dv * direction).sum() == pytest.approx((dy * difference).sum(), rel=2e-2)


def test_losses_are_those_of_the_formula():
    x, head, targets = normal(6, 32), normal(50, 32), np.array([1, 5, -1, 49, 0, 7])
    logits = (x @ head.T).astype(np.float64)
    expected = np.log(np.exp(logits).sum(-1)) - logits[np.arange(6), targets]
    expected[2] = 0
    weight = np.array([0.2], dtype=np.float32)
    loss, dlogits = ops.cross_entropy(x @ head.T, targets, weight=weight)
    np.testing.assert_allclose(loss, expected, rtol=1e-4, atol=1e-4)
    assert not dlogits[2].any()
    np.testing.assert_allclose(dlogits.sum(-1), 0, atol=1e-5)
    np.testing.assert_allclose(ops.head_loss(x, head, targets), expected, rtol=1e-4, atol=1e-4)
    fused, dx = ops.head_loss(x, head, targets, weight=weight)
    np.testing.assert_allclose(dx, dlogits @ head, rtol=1e-3, atol=1e-3)


def test_bf16_arrays_are_of_ml_dtypes_or_of_16_bit_integers():
    x = normal(4, 64)
    rounded = x.astype(ml_dtypes.bfloat16)
    w = np.ones(64, dtype=np.float32)
    y = ops.rms_norm(rounded, w)
    assert y.dtype == ml_dtypes.bfloat16
    np.testing.assert_array_equal(ops.rms_norm(rounded.view(np.uint16), w), y)
    np.testing.assert_allclose(y.astype(np.float32), ops.rms_norm(x, w), rtol=0.02, atol=0.02)
    np.testing.assert_array_equal(ops.cast(x, "bf16"), rounded)
    assert ops.rms_norm(rounded, w, dtype="f32").dtype == np.float32
    assert ops.cast(x, "f16").dtype == np.float16


def test_quantised_weights_are_blocks():
    values = random.integers(-127, 128, size=(16, 64)).astype(np.int8)
    scales = np.full((16, 2, 1), 0.5, dtype=np.float16)
    blocks = np.concatenate([scales.view(np.uint8).reshape(16, 2, 2),
                             values.view(np.uint8).reshape(16, 2, 32)], axis=-1).reshape(16, 68)
    w = clora.Tensor.from_array(blocks, dtype="q8_0")
    assert w.shape == (16, 64) and w.dtype == "q8_0"
    x = normal(3, 64)
    np.testing.assert_allclose(ops.gemm(x, w), x @ (0.5 * values.astype(np.float32)).T, rtol=1e-3,
                               atol=0.1)
    with pytest.raises(clora.Error, match="read back"):
        w.numpy()


def test_batches_are_recorded_once_and_replayed():
    batch = clora.Batch()
    x = batch.tensor(normal(4, 32))
    y = ops.softmax(ops.add(x, x, batch=batch), batch=batch)
    assert len(batch) >= 2 and any("softmax" in launch for launch in batch.launches())
    batch.submit()
    first = y.numpy()
    values = normal(4, 32)
    x.write(values)
    batch.submit()
    np.testing.assert_allclose(y.numpy(), ops.softmax(2 * values), atol=1e-6)
    assert np.abs(y.numpy() - first).max() > 1e-3
    with pytest.raises(clora.Error):
        ops.softmax(x, batch=batch)  # it is sealed


def test_contexts_profile_their_batches():
    context = clora.Context(profile=True)
    with clora.Batch(context) as batch:
        ops.softmax(batch.tensor(normal(64, 128)), batch=batch)
    rows = context.profile(by="shape")
    assert [row["op"] for row in rows if "softmax" in row["op"]] and rows[0]["bytes"] > 0
    with pytest.raises(ValueError, match="profile=True"):
        clora.Context().profile()


def test_wrong_shapes_and_types_are_refused():
    with pytest.raises(ValueError, match="rms_norm"):
        ops.rms_norm(normal(4, 32), normal(16))
    with pytest.raises(ValueError, match="complex"):
        ops.softmax(np.zeros((2, 2), dtype=np.complex64))
    tensor = clora.Tensor.from_array(normal(2, 3))
    with pytest.raises(ValueError, match=r"\[2, 3\]"):
        tensor.write(normal(3, 2))
    with pytest.raises(ValueError, match="dtype"):
        clora.Tensor.empty((2, 2), "f8")


def test_any_object_with_dlpack_is_an_array():
    class Exported:
        def __init__(self, array):
            self._array = array

        def __dlpack__(self, **arguments):
            return self._array.__dlpack__(**arguments)

        def __dlpack_device__(self):
            return self._array.__dlpack_device__()

    x = normal(3, 16)
    np.testing.assert_array_equal(ops.softmax(Exported(x)), ops.softmax(x))
    np.testing.assert_array_equal(np.from_dlpack(ops.softmax(x)), ops.softmax(x))
