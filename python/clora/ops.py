"""The library's ops on arrays: NumPy in and out, or recorded into a batch.

Each function takes NumPy arrays or :class:`clora.Tensor` objects. Without ``batch`` it runs at once
and returns NumPy arrays; with ``batch=`` a :class:`clora.Batch` it records, and returns tensors.
Activations are f32, bf16 or f16 (see :mod:`clora.arrays`), sums f32; results have the type of the
first argument unless ``dtype`` says another. Weights may also be quantised tensors.

Letters in shapes: T tokens, K and N inputs and outputs, R rank, D hidden size, F intermediate size,
H query heads, G key heads, E head dim, V vocabulary.
"""
from __future__ import annotations

import math
from typing import Any, Literal

import numpy as np
import numpy.typing as npt

from . import _clora
from .arrays import Array, Batch, Call, Tensor, default_context, set_default_context

__all__ = [
    "add", "attention", "attention_backward", "cast", "cross_entropy", "default_context",
    "embedding", "gelu", "gemm", "gemm_backward", "head_loss", "layer_norm", "layer_norm_backward",
    "lora_linear", "lora_linear_backward", "rms_norm", "rms_norm_backward", "rope", "rope_table",
    "set_default_context", "softmax", "softmax_backward", "swiglu", "swiglu_backward",
]

Gate = Literal["silu", "gelu", "sigmoid"]


def gemm(x: Array, w: Array, *, bias: Array | None = None, residual: Array | None = None,
         dtype: str | None = None, batch: Batch | None = None) -> Any:
    """y [T, N] = x [T, K] w [N, K]^T + residual [T, N] + bias [N] (f32)."""
    call = Call(batch, x, w, bias, residual)
    x, w = call.input(x), call.input(w)
    y = call.output((x.shape[0], w.shape[0]), dtype or x.dtype)
    _clora.gemm(call.to, y._tensor, x._tensor, w._tensor, call.optional(bias),
                call.optional(residual))
    return call.result(y)


def gemm_backward(dy: Array, w: Array, *, dtype: str | None = None,
                  batch: Batch | None = None) -> Any:
    """dx [T, K] = dy [T, N] w [N, K]."""
    call = Call(batch, dy, w)
    dy, w = call.input(dy), call.input(w)
    dx = call.output((dy.shape[0], w.shape[1]), dtype or dy.dtype)
    _clora.gemm_backward(call.to, dx._tensor, dy._tensor, w._tensor)
    return call.result(dx)


def lora_linear(x: Array, w: Array, a: Array, bt: Array, *, scale: float = 1.0,
                bias: Array | None = None, fused: bool = True, dtype: str | None = None,
                batch: Batch | None = None) -> Any:
    """Returns (y, s): s [T, R] = x a^T and y [T, N] = x w^T + bias + scale s bt.

    x [T, K], w [N, K], a [R, K] f32, bt [R, N] f32 (B of LoRA, transposed). fused: in the launch of
    the base product where a kernel can; else as separate products, the reference of the fused form.
    """
    call = Call(batch, x, w, a, bt, bias)
    x, w, a, bt = call.input(x), call.input(w), call.input(a), call.input(bt)
    y = call.output((x.shape[0], w.shape[0]), dtype or x.dtype)
    s = call.output((x.shape[0], a.shape[0]))
    _clora.lora_linear(call.to, y._tensor, s._tensor, x._tensor, w._tensor, call.optional(bias),
                       a._tensor, bt._tensor, scale, fused)
    return call.result(y, s)


def lora_linear_backward(dy: Array, x: Array, s: Array, w: Array, a: Array, bt: Array, *,
                         scale: float = 1.0, batch: Batch | None = None) -> Any:
    """Returns (dx [T, K], da [R, K], dbt [R, N]); x and s are those of the forward."""
    call = Call(batch, dy, x, s, w, a, bt)
    dy, x, s = call.input(dy), call.input(x), call.input(s)
    w, a, bt = call.input(w), call.input(a), call.input(bt)
    dx = call.output(x.shape, x.dtype)
    da, dbt = call.zeros(a.shape), call.zeros(bt.shape)
    _clora.lora_linear_backward(call.to, dx._tensor, da._tensor, dbt._tensor, dy._tensor, x._tensor,
                                s._tensor, w._tensor, a._tensor, bt._tensor, scale)
    return call.result(dx, da, dbt)


def rms_norm(x: Array, w: Array, *, epsilon: float = 1e-6, dtype: str | None = None,
             batch: Batch | None = None) -> Any:
    """y [T, D] = x / sqrt(mean(x^2) + epsilon) w; w [D] f32."""
    call = Call(batch, x, w)
    x, w = call.input(x), call.input(w)
    y = call.output(x.shape, dtype or x.dtype)
    _clora.rms_norm(call.to, y._tensor, x._tensor, w._tensor, epsilon)
    return call.result(y)


def rms_norm_backward(dy: Array, x: Array, w: Array, *, epsilon: float = 1e-6,
                      batch: Batch | None = None) -> Any:
    """dx [T, D] of the forward's input x."""
    call = Call(batch, dy, x, w)
    dy, x, w = call.input(dy), call.input(x), call.input(w)
    dx = call.output(x.shape, x.dtype)
    _clora.rms_norm_backward(call.to, dx._tensor, dy._tensor, x._tensor, w._tensor, epsilon)
    return call.result(dx)


def layer_norm(x: Array, w: Array, bias: Array, *, epsilon: float = 1e-5,
               dtype: str | None = None, batch: Batch | None = None) -> Any:
    """y [T, D] = (x - mean(x)) / sqrt(var(x) + epsilon) w + bias; w, bias [D] f32."""
    call = Call(batch, x, w, bias)
    x, w, bias = call.input(x), call.input(w), call.input(bias)
    y = call.output(x.shape, dtype or x.dtype)
    _clora.layer_norm(call.to, y._tensor, x._tensor, w._tensor, bias._tensor, epsilon)
    return call.result(y)


def layer_norm_backward(dy: Array, x: Array, w: Array, *, epsilon: float = 1e-5,
                        batch: Batch | None = None) -> Any:
    """dx [T, D] of the forward's input x."""
    call = Call(batch, dy, x, w)
    dy, x, w = call.input(dy), call.input(x), call.input(w)
    dx = call.output(x.shape, x.dtype)
    _clora.layer_norm_backward(call.to, dx._tensor, dy._tensor, x._tensor, w._tensor, epsilon)
    return call.result(dx)


def softmax(x: Array, *, dtype: str | None = None, batch: Batch | None = None) -> Any:
    """y [T, N] = exp(x - max x) / sum, over the last dimension."""
    call = Call(batch, x)
    x = call.input(x)
    y = call.output(x.shape, dtype or x.dtype)
    _clora.softmax(call.to, y._tensor, x._tensor)
    return call.result(y)


def softmax_backward(dy: Array, y: Array, *, batch: Batch | None = None) -> Any:
    """dx [T, N]; y is the forward's output."""
    call = Call(batch, dy, y)
    dy, y = call.input(dy), call.input(y)
    dx = call.output(y.shape, y.dtype)
    _clora.softmax_backward(call.to, dx._tensor, dy._tensor, y._tensor)
    return call.result(dx)


def swiglu(gate: Array, up: Array, *, function: Gate = "silu", dtype: str | None = None,
           batch: Batch | None = None) -> Any:
    """y [T, F] = function(gate) up; "gelu" is the tanh form."""
    call = Call(batch, gate, up)
    gate, up = call.input(gate), call.input(up)
    y = call.output(gate.shape, dtype or gate.dtype)
    _clora.swiglu(call.to, y._tensor, gate._tensor, up._tensor, function)
    return call.result(y)


def swiglu_backward(dy: Array, gate: Array, up: Array, *, function: Gate = "silu",
                    batch: Batch | None = None) -> Any:
    """Returns (dgate, dup), both [T, F]."""
    call = Call(batch, dy, gate, up)
    dy, gate, up = call.input(dy), call.input(gate), call.input(up)
    dgate, dup = call.output(gate.shape, gate.dtype), call.output(up.shape, up.dtype)
    _clora.swiglu_backward(call.to, dgate._tensor, dup._tensor, dy._tensor, gate._tensor,
                           up._tensor, function)
    return call.result(dgate, dup)


def gelu(x: Array, *, approximate: bool = False, dtype: str | None = None,
         batch: Batch | None = None) -> Any:
    """y = x P(x), P the normal distribution; approximate: its tanh form."""
    call = Call(batch, x)
    x = call.input(x)
    y = call.output(x.shape, dtype or x.dtype)
    _clora.gelu(call.to, y._tensor, x._tensor, not approximate)
    return call.result(y)


def rope_table(positions: int, head_dim: int, *, base: float = 10000.0) -> npt.NDArray[np.float32]:
    """Returns the cosines and sines [positions, head_dim / 2, 2] of :func:`rope`."""
    frequencies = base ** (-np.arange(0, head_dim, 2, dtype=np.float64) / head_dim)
    angles = np.arange(positions, dtype=np.float64)[:, None] * frequencies
    return np.stack([np.cos(angles), np.sin(angles)], axis=-1).astype(np.float32)


def rope(x: Array, positions: Array, table: Array, *, interleaved: bool = False,
         backward: bool = False, batch: Batch | None = None) -> Any:
    """y [T, H, E] = x, with each pair of a head's elements rotated by the angle of its position.

    positions [T] i32; table [P, E/2, 2] f32. Pairs are (i, i + E/2), as in Hugging Face, or
    interleaved (2i, 2i + 1). backward: by the negative angles, which is the gradient.
    """
    call = Call(batch, x, positions, table)
    x, positions, table = call.input(x), call.input(positions), call.input(table)
    y = call.output(x.shape, x.dtype)
    _clora.rope(call.to, y._tensor, x._tensor, positions._tensor, table._tensor, interleaved,
                backward)
    return call.result(y)


def embedding(ids: Array, table: Array, *, factor: float = 1.0, dtype: str = "f32",
              batch: Batch | None = None) -> Any:
    """y [T, D] = factor table[ids]; ids [T] i32, table [V, D]."""
    call = Call(batch, ids, table)
    ids, table = call.input(ids), call.input(table)
    y = call.output((ids.shape[0], table.shape[1]), dtype)
    _clora.embedding(call.to, y._tensor, ids._tensor, table._tensor, factor)
    return call.result(y)


def cast(x: Array, dtype: str, *, batch: Batch | None = None) -> Any:
    """y = x as f32, bf16 or f16, rounded to nearest even."""
    call = Call(batch, x)
    x = call.input(x)
    y = call.output(x.shape, dtype)
    _clora.cast(call.to, y._tensor, x._tensor)
    return call.result(y)


def add(x: Array, t: Array, *, factor: float = 1.0, dtype: str | None = None,
        batch: Batch | None = None) -> Any:
    """y = x + factor t, of one shape."""
    call = Call(batch, x, t)
    x, t = call.input(x), call.input(t)
    y = call.output(x.shape, dtype or x.dtype)
    _clora.add(call.to, y._tensor, x._tensor, t._tensor, factor)
    return call.result(y)


def _ranges(call: Call, T: int, first: Array | None, last: Array | None) -> tuple[Tensor, Tensor]:
    rows = np.arange(T, dtype=np.int32)
    return (call.input(np.zeros_like(rows) if first is None else first),
            call.input(rows if last is None else last))


def attention(q: Array, k: Array, v: Array, *, first: Array | None = None,
              last: Array | None = None, scale: float | None = None, soft_cap: float = 0.0,
              dtype: str | None = None, batch: Batch | None = None) -> Any:
    """Returns (y [T, H, E], log_sum_exp [T, H]) of grouped-query attention.

    q [T, H, E], k and v [Tk, G, E], H a multiple of G. Row t attends to the key rows first[t] to
    last[t], both included ([T] i32); by default 0 to t, as in one document. scale of scores:
    1 / sqrt(E) by default. soft_cap: of scores; 0: none.
    """
    call = Call(batch, q, k, v, first, last)
    q, k, v = call.input(q), call.input(k), call.input(v)
    begin, end = _ranges(call, q.shape[0], first, last)
    y = call.output(q.shape, dtype or q.dtype)
    log_sum_exp = call.output(q.shape[:2])
    _clora.attention(call.to, y._tensor, log_sum_exp._tensor, q._tensor, k._tensor, v._tensor,
                     begin._tensor, end._tensor, _scale(scale, q), soft_cap)
    return call.result(y, log_sum_exp)


def attention_backward(dy: Array, y: Array, log_sum_exp: Array, q: Array, k: Array, v: Array, *,
                       first: Array | None = None, last: Array | None = None,
                       scale: float | None = None, causal: bool = True,
                       batch: Batch | None = None) -> Any:
    """Returns (dq, dk, dv); y and log_sum_exp are the forward's outputs.

    causal: last[t] is t; else the ranges are symmetric, as in an encoder.
    """
    call = Call(batch, dy, y, log_sum_exp, q, k, v, first, last)
    dy, y, log_sum_exp = call.input(dy), call.input(y), call.input(log_sum_exp)
    q, k, v = call.input(q), call.input(k), call.input(v)
    begin, end = _ranges(call, q.shape[0], first, last)
    dq, dk, dv = (call.output(each.shape, q.dtype) for each in (q, k, v))
    _clora.attention_backward(call.to, dq._tensor, dk._tensor, dv._tensor, dy._tensor, y._tensor,
                              log_sum_exp._tensor, q._tensor, k._tensor, v._tensor, begin._tensor,
                              end._tensor, _scale(scale, q), causal)
    return call.result(dq, dk, dv)


def _scale(scale: float | None, q: Tensor) -> float:
    return 1.0 / math.sqrt(q.shape[-1]) if scale is None else scale


def cross_entropy(logits: Array, targets: Array, *, weight: Array | None = None,
                  batch: Batch | None = None) -> Any:
    """loss [T] = log(sum exp(logits)) - logits[targets] in nats; 0 where a target is negative.

    logits [T, V], targets [T] i32. With weight, [1] or [T] f32, returns (loss, dlogits), where
    dlogits = (softmax(logits) - onehot(targets)) weight.
    """
    call = Call(batch, logits, targets, weight)
    logits, targets = call.input(logits), call.input(targets)
    loss = call.output((logits.shape[0],))
    dlogits = call.output(logits.shape, logits.dtype) if weight is not None else None
    _clora.cross_entropy(call.to, loss._tensor, dlogits._tensor if dlogits else None,
                         logits._tensor, targets._tensor, call.optional(weight))
    return call.result(loss) if dlogits is None else call.result(loss, dlogits)


def head_loss(x: Array, head: Array, targets: Array, *, weight: Array | None = None,
              batch: Batch | None = None) -> Any:
    """The loss of x [T, D] under a head [V, D], fused: the logits [T, V] are never stored.

    Returns loss [T]; with weight, [1] or [T] f32, (loss, dx [T, D]).
    """
    call = Call(batch, x, head, targets, weight)
    x, head, targets = call.input(x), call.input(head), call.input(targets)
    loss = call.output((x.shape[0],))
    dx = call.output(x.shape, x.dtype) if weight is not None else None
    _clora.head_loss(call.to, loss._tensor, dx._tensor if dx else None, x._tensor, head._tensor,
                     targets._tensor, call.optional(weight))
    return call.result(loss) if dx is None else call.result(loss, dx)
