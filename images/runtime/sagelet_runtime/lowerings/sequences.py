"""Layers of LSTM and GRU over whole sequences. Imported with the first sequence only.

T is the number of steps, B of rows, I of inputs, H of hidden units. Formulas and the order of the gates are those of
torch's documentation of nn.LSTM and nn.GRU.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor


def run(name: str, original: Any, *arguments: Any) -> Any:
    """Returns what torch's function `original`, which is `lstm` or `gru`, returns for these arguments."""
    x, states, weights, _, layers, _, _, _, is_batch_first = arguments
    kind, states = (_Lstm, states) if name == "lstm" else (_Gru, [states])
    y = x.transpose(0, 1) if is_batch_first else x
    last = []
    for layer in range(layers):
        y, *ends = kind.apply(original, y, *weights[4 * layer : 4 * layer + 4], *(state[layer] for state in states))
        last.append(ends)
    y = y.transpose(0, 1) if is_batch_first else y
    return (y, *(torch.stack(ends) for ends in zip(*last)))


class _Lstm(torch.autograd.Function):  # type: ignore[misc]
    """A layer of an LSTM. The gates are i, f, g, o."""

    @staticmethod
    def forward(
        ctx: Any, original: Any, x: Tensor, wi: Tensor, wh: Tensor, bi: Tensor, bh: Tensor, h: Tensor, c: Tensor
    ) -> tuple[Tensor, Tensor, Tensor]:
        """`x`: (T, B, I); `h`, `c`: (B, H). Returns the states of all steps (T, B, H), and the last `h` and `c`."""
        inputs = (x, wi, wh, bi, bh, h, c)
        weight = wh.t()
        gates, states, cells = [], [], []
        for part in _of_inputs(x, wi, bi + bh):
            i, f, g, o = (part + h @ weight).chunk(4, 1)
            i, f, g, o = i.sigmoid(), f.sigmoid(), g.tanh(), o.sigmoid()
            c = f * c + i * g
            h = o * c.tanh()
            gates += [i, f, g, o]
            states.append(h)
            cells.append(c)
        ctx.original = original
        ctx.set_materialize_grads(False)
        # One by one: XLA's CPU compiler makes slow loops of operations on a concatenation of all steps.
        ctx.save_for_backward(*inputs, *states, *cells, *gates)
        return torch.stack(states), h, c

    @staticmethod
    def backward(ctx: Any, dy: Tensor | None, dh: Tensor | None, dc: Tensor | None) -> tuple[Any, ...]:
        # Read once: a checkpoint gives them once.
        everything = ctx.saved_tensors
        inputs, saved = everything[:7], everything[7:]
        if torch.is_grad_enabled():
            return _differentiable(ctx, _own_lstm, inputs, (dy, dh, dc))
        x, wi, wh, _, _, h, c = inputs
        steps = len(x)
        states, cells, gates = [h, *saved[:steps]], [c, *saved[steps : 2 * steps]], saved[2 * steps :]
        found = []
        for t, d in _backwards(dy, steps):
            i, f, g, o = gates[4 * t : 4 * t + 4]
            now = cells[t + 1].tanh()
            d = _sum(d, dh)
            dc = _sum(dc, None if d is None else d * o * (1 - now * now))
            d, dc = (torch.zeros_like(h) if one is None else one for one in (d, dc))
            of_i, of_f = dc * g * i * (1 - i), dc * cells[t] * f * (1 - f)
            of_g, of_o = dc * i * (1 - g * g), d * now * o * (1 - o)
            of_gates = torch.cat([of_i, of_f, of_g, of_o], 1)
            dc = dc * f
            dh = of_gates @ wh
            found.append(of_gates)
        of_all = torch.cat(found[::-1])
        return None, *_of_weights(ctx, x, wi, torch.stack(states[:-1]), of_all, of_all), dh, dc


class _Gru(torch.autograd.Function):  # type: ignore[misc]
    """A layer of a GRU. The gates are r, z, n."""

    @staticmethod
    def forward(
        ctx: Any, original: Any, x: Tensor, wi: Tensor, wh: Tensor, bi: Tensor, bh: Tensor, h: Tensor
    ) -> tuple[Tensor, Tensor]:
        """`x`: (T, B, I); `h`: (B, H). Returns the states of all steps (T, B, H), and the last one."""
        inputs = (x, wi, wh, bi, bh, h)
        weight = wh.t()
        gates, states = [], []
        for part in _of_inputs(x, wi, bi):
            of_x, of_h = part.chunk(3, 1), torch.addmm(bh, h, weight).chunk(3, 1)
            r, z = (of_x[0] + of_h[0]).sigmoid(), (of_x[1] + of_h[1]).sigmoid()
            n = (of_x[2] + r * of_h[2]).tanh()
            h = n + z * (h - n)
            gates.append((r, z, n, of_h[2]))
            states.append(h)
        y = torch.stack(states)
        ctx.original = original
        ctx.set_materialize_grads(False)
        ctx.save_for_backward(*inputs, y, *(torch.stack(gate) for gate in zip(*gates)))
        return y, h

    @staticmethod
    def backward(ctx: Any, dy: Tensor | None, dh: Tensor | None) -> tuple[Any, ...]:
        *inputs, y, r, z, n, of_h = ctx.saved_tensors
        if torch.is_grad_enabled():
            return _differentiable(ctx, _own_gru, inputs, (dy, dh))
        x, wi, wh, _, _, h = inputs
        before = _before(h, y)
        by_n = (1 - z) * (1 - n * n)
        by_z = (before - n) * z * (1 - z)
        by_r = by_n * of_h * r * (1 - r)
        by_all = torch.stack([by_r, by_z, by_n * r], 2).unbind()
        keeps = z.unbind()
        states, found = [], []
        for t, d in _backwards(dy, len(y)):
            d = _sum(d, dh)
            d = torch.zeros_like(h) if d is None else d
            of_gates = (d.unsqueeze(1) * by_all[t]).flatten(1)
            dh = d * keeps[t] + of_gates @ wh
            states.append(d)
            found.append(of_gates)
        of_states = torch.cat(found[::-1])
        of_r_and_z = of_states[:, : 2 * h.shape[1]]
        of_inputs = torch.cat([of_r_and_z, torch.cat(states[::-1]) * by_n.flatten(0, 1)], 1)
        return None, *_of_weights(ctx, x, wi, before, of_inputs, of_states), dh


def _of_inputs(x: Tensor, w: Tensor, b: Tensor) -> Sequence[Tensor]:
    """Returns the inputs' part of the gates, (B, gates * H) for each of the T steps."""
    steps: Sequence[Tensor] = torch.addmm(b, x.flatten(0, 1), w.t()).view(*x.shape[:2], -1).unbind()
    return steps


def _of_weights(
    ctx: Any, x: Tensor, wi: Tensor, before: Tensor, of_inputs: Tensor, of_states: Tensor
) -> tuple[Tensor | None, ...]:
    """Returns the gradients of `x`, both weights and both biases, or None for those that nobody needs.

    `before`: the states before the steps, (T, B, H). `of_inputs`, `of_states`: (T * B, gates * H), the gradients of the
    products with `wi` and `wh`.
    """
    _, needs_x, needs_wi, needs_wh, needs_bi, needs_bh, *_ = ctx.needs_input_grad
    return (
        (of_inputs @ wi).view(x.shape) if needs_x else None,
        of_inputs.t() @ x.flatten(0, 1) if needs_wi else None,
        of_states.t() @ before.flatten(0, 1) if needs_wh else None,
        of_inputs.sum(0) if needs_bi else None,
        of_states.sum(0) if needs_bh else None,
    )


def _before(h: Tensor, y: Tensor) -> Tensor:
    """Returns the states before the steps, (T, B, H). `h`: the first of them. `y`: the states after the steps."""
    return torch.cat([h.unsqueeze(0), y[:-1]])


def _backwards(dy: Tensor | None, steps: int) -> list[tuple[int, Tensor | None]]:
    """Returns the steps from the last to the first, each with the gradient of its output, if it has one."""
    gradients = [None] * steps if dy is None else dy.unbind()
    return list(enumerate(gradients))[::-1]


def _sum(one: Tensor | None, other: Tensor | None) -> Tensor | None:
    if one is None or other is None:
        return other if one is None else one
    return one + other


def _differentiable(
    ctx: Any, own: Any, inputs: Sequence[Tensor], gradients: Sequence[Tensor | None]
) -> tuple[Any, ...]:
    """Returns the gradients by torch's own operations, for a backward pass that is differentiated itself."""
    needed = ctx.needs_input_grad[1:]
    with torch.enable_grad():
        # One input may depend on another, or be the same tensor. Its copy does not.
        copies = [one.view_as(one) for one in inputs]
        pairs = [(one, d) for one, d in zip(own(ctx.original, *copies), gradients) if d is not None]
    outputs, of_outputs = zip(*pairs)
    wanted = [one for one, is_needed in zip(copies, needed) if is_needed]
    found = iter(torch.autograd.grad(outputs, wanted, of_outputs, create_graph=True))
    return None, *(next(found) if is_needed else None for is_needed in needed)


def _own_lstm(original: Any, x: Tensor, wi: Tensor, wh: Tensor, bi: Tensor, bh: Tensor, h: Tensor, c: Tensor) -> Any:
    y, last_h, last_c = original(x, [h[None], c[None]], [wi, wh, bi, bh], True, 1, 0.0, True, False, False)
    return y, last_h[0], last_c[0]


def _own_gru(original: Any, x: Tensor, wi: Tensor, wh: Tensor, bi: Tensor, bh: Tensor, h: Tensor) -> Any:
    y, last_h = original(x, h[None], [wi, wh, bi, bh], True, 1, 0.0, True, False, False)
    return y, last_h[0]
