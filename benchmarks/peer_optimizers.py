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
