"""Linear systems over time in torch, in the forms that serve a CPU. Parameters are computed in double precision, once; what
depends on the length is kept for the last one.

    fft       products of spectra
    chunksN   products with Toeplitz matrices within chunks of N steps, a recurrence between them
    loop      step by step
"""
import torch


def chunk_of(form):
    return int(form.removeprefix("chunks")) if form.startswith("chunks") else 0


def powers(x, steps):
    """exp(x k) for k below steps, along a new last axis."""
    return torch.exp(x.unsqueeze(-1) * torch.arange(steps, dtype=torch.float64))


def shifted(k, size):
    """A kernel of lags 0, 1, … as the matrix [s, t] of lag t-s."""
    lag = torch.arange(size)[None, :] - torch.arange(size)[:, None]
    return torch.where(lag >= 0, k[..., lag.clamp(min=0)], torch.zeros((), dtype=k.dtype))


def kernels(x, weight, steps):
    """Re Σ weight exp(x k) over the states, the last axis: (…, steps). One system at a time, for the memory."""
    x, weight = torch.broadcast_tensors(x, weight)
    flat, w = x.reshape(-1, x.shape[-1]), weight.reshape(-1, x.shape[-1])
    return torch.stack([(w[i] @ powers(flat[i], steps)).real for i in range(len(flat))]).reshape(*x.shape[:-1], steps)


def between(left, power, start=None):
    """States (…, chunks) before each chunk, from what each chunk leaves and the power of a whole chunk; and the last."""
    z, at = torch.empty_like(left), torch.zeros_like(left[..., 0]) if start is None else start
    for j in range(left.shape[-1]):
        z[..., j] = at
        at = torch.addcmul(left[..., j], at, power)
    return z


class Convolution:
    """Systems of one input and one output: u (batch, features, steps) → (batch, channels, features, steps), without D.

    kernel(steps) gives (channels, features, steps) in double precision; later(steps) the same for the steps after one,
    from the next on. x and weight (channels, features, states) are the eigenvalues times the step size, and the weights of
    the powers, where there are such: they allow chunks."""

    def __init__(self, form, dtype, kernel, later=None, x=None, weight=None, taps=None):
        if form == "loop" or form != "fft" and (x is None or later or taps):
            raise ValueError(f"these systems have no form {form}")
        self.chunk, self.dtype = chunk_of(form), dtype
        self.kernel, self.later, self.x, self.weight, self.taps = kernel, later, x, weight, taps
        self.length, self.kept = None, None

    def keep(self, steps, make):
        if self.length != steps:
            self.length, self.kept = steps, make()
        return self.kept

    def __call__(self, u):
        return self.by_chunks(u) if self.chunk else self.by_fft(u)

    def by_fft(self, u):
        steps = u.shape[-1]
        taps = min(steps, self.taps or steps)
        size = 1 << (steps + taps - 1).bit_length()

        def spectrum():
            k = self.kernel(steps)[..., :taps]
            full = torch.zeros(*k.shape[:-1], size, dtype=k.dtype)
            full[..., :taps] = k
            if self.later:
                full[..., size - taps:] += self.later(steps)[..., :taps].flip(-1)
            return torch.fft.rfft(full).to(torch.complex64 if self.dtype == torch.float32 else torch.complex128)
        k = self.keep(steps, spectrum)
        y = torch.fft.rfft(u, n=size).unsqueeze(1) * k
        return torch.fft.irfft(y, n=size)[..., :steps]

    def by_chunks(self, u):
        batch, features, steps = u.shape
        size, pad = self.chunk, -steps % self.chunk
        channels, states = self.weight.shape[0], self.x.shape[-1]
        rows = (steps + pad) // size

        def matrices():
            k = self.kernel(size)
            x = self.x.reshape(-1, features, states)[0]
            end = torch.view_as_real(powers(x, size).flip(-1).transpose(1, 2).contiguous()).flatten(2)
            leave = (self.weight.unsqueeze(-1) * powers(x, size + 1)[..., 1:]).transpose(0, 1)  # features, channels, states, size
            leave = torch.stack([leave.real, -leave.imag], 3).flatten(2, 3).transpose(1, 2).flatten(2)
            inside = shifted(k, size).permute(1, 2, 0, 3).flatten(2)
            return (inside.to(self.dtype).contiguous(), end.to(self.dtype).contiguous(), leave.to(self.dtype).contiguous(),
                    torch.exp(x * size).to(torch.complex64 if self.dtype == torch.float32 else torch.complex128))
        inside, end, leave, power = self.keep(size, matrices)
        v = torch.nn.functional.pad(u, (0, pad)) if pad else u
        v = v.reshape(batch, features, rows, size).transpose(0, 1).reshape(features, batch * rows, size)
        left = torch.view_as_complex(torch.bmm(v, end).view(features, batch, rows, states, 2))
        z = torch.empty_like(left)
        at = torch.zeros(features, batch, states, dtype=left.dtype)
        for j in range(rows):
            z[:, :, j] = at
            at = torch.addcmul(left[:, :, j], at, power.unsqueeze(1))
        y = torch.bmm(v, inside).baddbmm_(torch.view_as_real(z).reshape(features, batch * rows, 2 * states), leave)
        y = y.view(features, batch, rows, channels, size).permute(1, 3, 0, 2, 4)
        return y.reshape(batch, channels, features, rows * size)[..., :steps]


class Recurrence:
    """z[t] = λ̄ z[t-1] + v[t] for complex v (batch, steps, states); λ̄ = exp(x)."""

    def __init__(self, form, dtype, x):
        self.form, self.chunk, self.x = form, chunk_of(form), x
        self.complex = torch.complex64 if dtype == torch.float32 else torch.complex128
        self.length, self.kept = None, None

    def keep(self, steps, make):
        if self.length != steps:
            self.length, self.kept = steps, make()
        return self.kept

    def __call__(self, v):
        batch, steps, states = v.shape
        if self.form == "loop":
            power = self.keep(0, lambda: torch.exp(self.x).to(self.complex))
            return looped(power, v)
        if self.form == "fft":
            size = 1 << (2 * steps - 1).bit_length()
            k = self.keep(steps, lambda: torch.fft.fft(powers(self.x, steps), n=size).to(self.complex))
            return torch.fft.ifft(torch.fft.fft(v.transpose(1, 2), n=size) * k)[..., :steps].transpose(1, 2)
        size, pad = self.chunk, -steps % self.chunk
        inside, carry, power = self.keep(0, lambda: (
            shifted(powers(self.x, size), size).to(self.complex).contiguous(),
            powers(self.x, size + 1)[:, None, 1:].to(self.complex), torch.exp(self.x * size).to(self.complex)[:, None]))
        rows = (steps + pad) // size
        w = torch.nn.functional.pad(v, (0, 0, 0, pad)).reshape(batch * rows, size, states).permute(2, 0, 1)
        y = torch.bmm(w.contiguous(), inside)
        z = between(y[..., -1].reshape(states, batch, rows), power)
        y = torch.addcmul(y, z.reshape(states, batch * rows, 1), carry)
        return y.permute(1, 2, 0).reshape(batch, rows * size, states)[:, :steps]


def looped(factor, v):
    """h[t] = factor h[t-1] + v[t] along axis 1; factor is that of all steps, or has one more axis less than v."""
    h = torch.empty_like(v)
    at = torch.zeros_like(v[:, 0])
    outs, ins = h.unbind(1), v.unbind(1)
    factors = factor.unbind(1) if factor.dim() == v.dim() else [factor] * len(ins)
    for o, f, x in zip(outs, factors, ins):
        at = torch.addcmul(x, f, at, out=o)
    return h


def blocked(factor, v, size=64):
    """The same for factors of each step: within blocks at once, then from block to block."""
    batch, steps = v.shape[:2]
    pad = -steps % size
    shape = (batch, (steps + pad) // size, size, *v.shape[2:])
    widths = (0, 0) * (v.dim() - 2) + (0, pad)
    f = torch.nn.functional.pad(factor, widths).reshape(shape).transpose(1, 2).contiguous()
    h = torch.nn.functional.pad(v, widths).reshape(shape).transpose(1, 2).contiguous()
    for t in range(1, size):
        h[:, t].addcmul_(f[:, t], h[:, t - 1])
        f[:, t].mul_(f[:, t - 1])
    at = torch.zeros_like(h[:, 0, 0])
    before = []
    for j in range(shape[1]):
        before.append(at)
        at = torch.addcmul(h[:, -1, j], f[:, -1, j], at)
    h = torch.addcmul(h, f, torch.stack(before, 1).unsqueeze(1))
    return h.transpose(1, 2).reshape(batch, shape[1] * size, *v.shape[2:])[:, :steps]
