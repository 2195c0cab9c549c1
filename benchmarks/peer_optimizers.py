#===- peer_optimizers.py - Optimizers of other libraries ------*- Python -*-===#
# Part of the Tandem project, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#===----------------------------------------------------------------------===#
#
# This file has optimizers of other libraries, or as papers and their authors' code state them, for
# benchmarks and tests.
#
#===----------------------------------------------------------------------===#
"""Optimizers that Tandem's are compared with."""

import math

import torch


class AdEMAMixReference(torch.optim.Optimizer):
    """AdEMAMix as the equations of the paper, in the type of the parameters."""

    def __init__(self, params, lr, betas, alpha, eps, weight_decay, t_alpha, t_beta3):
        super().__init__(params, {"lr": lr})
        self.betas, self.alpha, self.eps, self.decay = betas, alpha, eps, weight_decay
        self.t_alpha, self.t_beta3, self.count = t_alpha, t_beta3, 0

    def _scheduled(self) -> tuple[float, float]:
        beta1, _, beta3 = self.betas
        alpha = min(self.count * self.alpha / self.t_alpha, self.alpha)
        share, near, far = min(self.count / self.t_beta3, 1.0), math.log(beta1), math.log(beta3)
        return alpha, min(math.exp(near * far / ((1 - share) * far + share * near)), beta3)

    @torch.no_grad()
    def step(self):
        self.count += 1
        (beta1, beta2, _), (alpha, beta3) = self.betas, self._scheduled()
        first, second = 1 - beta1**self.count, 1 - beta2**self.count
        for param in (p for group in self.param_groups for p in group["params"]):
            if not self.state[param]:
                self.state[param].update((name, torch.zeros_like(param)) for name in ("m", "s", "v"))
            m, s, v = self.state[param].values()
            m.mul_(beta1).add_(param.grad, alpha=1 - beta1)
            s.mul_(beta3).add_(param.grad, alpha=1 - beta3)
            v.mul_(beta2).addcmul_(param.grad, param.grad, value=1 - beta2)
            direction = (m / first + alpha * s) / (v.sqrt() / math.sqrt(second) + self.eps)
            param.sub_(direction + self.decay * param, alpha=self.param_groups[0]["lr"])


def schedule_free(params, **options) -> torch.optim.Optimizer:
    """Returns the optimizer of the authors' package, in train mode."""
    import schedulefree

    optimizer = schedulefree.AdamWScheduleFree(params, **options)
    optimizer.train()
    return optimizer


class MARSReference(torch.optim.Optimizer):
    """MARS as its authors' code has it, in the type of the parameters."""

    def __init__(self, params, lr, betas, eps, weight_decay, gamma=0.025, lr_1d_factor=1.0):
        super().__init__(params, {"lr": lr, "betas": betas, "eps": eps, "weight_decay": weight_decay})
        self.gamma, self.lr_1d_factor = gamma, lr_1d_factor

    @torch.no_grad()
    def step(self):
        for group in self.param_groups:
            for param in group["params"]:
                self._step_of(param, self.state[param], group)

    def _step_of(self, param, state, group):
        lr, decay, (beta1, beta2) = group["lr"], group["weight_decay"], group["betas"]
        c = param.grad
        if param.dim() > 1:
            last = state.get("last", torch.zeros_like(param))
            c = c + self.gamma * beta1 / (1 - beta1) * (c - last)
            c = c / max(1.0, c.norm().item())
            state["last"] = param.grad.clone()
        else:
            lr, decay, (beta1, beta2) = lr * self.lr_1d_factor, 0.1, (0.9, 0.95)
        t = state["t"] = state.get("t", 0) + 1
        m = state.setdefault("m", torch.zeros_like(param)).lerp_(c, 1 - beta1)
        v = state.setdefault("v", torch.zeros_like(param)).mul_(beta2).addcmul_(c, c, value=1 - beta2)
        update = m / (1 - beta1**t) / ((v / (1 - beta2**t)).sqrt() + group["eps"])
        param.sub_(update + decay * param, alpha=lr)


def adan(params, **options) -> torch.optim.Optimizer:
    """Returns pytorch_optimizer's Adan."""
    import pytorch_optimizer

    return pytorch_optimizer.Adan(params, **options)


class ShampooReference(torch.optim.Optimizer):
    """Computes Shampoo with Adam's step sizes as Shi et al. 2023 (algorithm 2) write it, with inverse
    roots in float64."""

    def __init__(self, params, lr=1e-3, betas=(0.9, 0.999), eps=1e-8, weight_decay=0.01,
                 precondition_frequency=10, start=None, precond_eps=1e-12, most=10000):
        super().__init__(params, {"lr": lr, "weight_decay": weight_decay})
        self.numbers = *betas, eps, precondition_frequency, precond_eps, most
        self.start = precondition_frequency if start is None else start

    @torch.no_grad()
    def step(self):
        for group in self.param_groups:
            for param in group["params"]:
                update = self._update_of(param, self.state[param])
                param.sub_(group["lr"] * (update + group["weight_decay"] * param))

    def _update_of(self, param, state):
        beta1, beta2, eps, every, precond_eps, most = self.numbers
        g = param.grad
        t = state["t"] = state.get("t", 0) + 1
        m = state.setdefault("m", torch.zeros_like(param)).mul_(beta1).add_(g, alpha=1 - beta1)
        v = state.setdefault("v", torch.zeros_like(param)).mul_(beta2).addcmul_(g, g, value=1 - beta2)
        update = m / (1 - beta1**t) / ((v / (1 - beta2**t)).sqrt() + eps)
        dims = [d for d, size in enumerate(param.shape) if size <= most] if param.dim() > 1 else []
        found = m / (1 - beta1**t)
        for d in dims:
            root = self._root(state, g.movedim(d, 0).flatten(1), d, t, 2 * len(dims))
            if root is not None:
                found = torch.tensordot(root.to(found.dtype), found.movedim(d, 0), dims=1).movedim(0, d)
        return found * (update.norm() / found.norm()) if dims and t >= self.start else update

    def _root(self, state, rows, d, t, root):
        """Updates the statistics of a dimension, and returns their inverse root, if it is used."""
        _, beta2, _, every, precond_eps, _ = self.numbers
        wide = torch.float64 if rows.dtype is torch.float64 else torch.float32
        left = state.setdefault(f"left{d}", torch.zeros(len(rows), len(rows), dtype=wide))
        left.mul_(beta2).add_(rows.to(wide) @ rows.to(wide).T, alpha=1 - beta2)
        if t >= self.start and (t - self.start) % every == 0:
            values, vectors = torch.linalg.eigh(left.double() / (1 - beta2**t))
            values = (values - min(values[0], 0) + precond_eps) ** (-1 / root)
            state[f"root{d}"] = (vectors * values @ vectors.T).to(wide)
        return state.get(f"root{d}")


def soap(params, **options) -> torch.optim.Optimizer:
    """Returns pytorch_optimizer's SOAP."""
    import pytorch_optimizer

    return pytorch_optimizer.SOAP(params, **options)


def came(params, **options) -> torch.optim.Optimizer:
    """Returns the authors' CAME."""
    import came_pytorch

    return came_pytorch.CAME(params, **options)


def prodigy(params, **options) -> torch.optim.Optimizer:
    """Returns the authors' Prodigy."""
    import prodigyopt

    return prodigyopt.Prodigy(params, **options)


def adam_mini(params, weight_decay, name="mlp", **options) -> torch.optim.Optimizer:
    """Returns the authors' Adam-mini, with AdamW for vectors. It looks at names: a matrix has a second
    moment for each row if it is called "mlp", and for each head if it is called "q_proj". Those of
    vectors have no decay there, which they get here."""
    import adam_mini

    named = [(name if param.dim() > 1 else "bias", param) for param in params]
    optimizer = adam_mini.Adam_mini(named, weight_decay=weight_decay, verbose=False, **options)
    for group in optimizer.param_groups:
        group["weight_decay"] = weight_decay
    return optimizer
