#===- projects.py - The peers of the accuracy benchmark --------*- Python -*-===#
# Part of the Tandem project, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#===----------------------------------------------------------------------===#
#
# This file implements AdamW of other projects: by their own code if it runs on a CPU, and otherwise
# by models of the arithmetic that they publish.
#
#===----------------------------------------------------------------------===#
"""AdamW of other projects, which take steps and return their weights.

The models follow the sources operation by operation, in f32 where these use f32, and share no code
with them. Weight decay is zero throughout.
"""

import importlib.metadata
import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import torch

from streams import BETA1, EPS, LR

BF16, F32, F16, E4M3 = torch.bfloat16, torch.float32, torch.float16, torch.float8_e4m3fn


#===------------------------------------------------------------------------===#
# Their own code
#===------------------------------------------------------------------------===#


class Own:
    """Runs an optimizer with PyTorch's interface."""

    def __init__(self, make: Callable, dtype: torch.dtype, start: np.ndarray):
        self.parameter = torch.nn.Parameter(torch.from_numpy(start.copy()).to(dtype))
        self.optimizer = make([self.parameter])

    def step(self, gradient: np.ndarray) -> None:
        self.parameter.grad = torch.from_numpy(gradient).to(self.parameter.dtype)
        self.optimizer.step()

    def weights(self) -> np.ndarray:
        return self.parameter.detach().double().numpy()


def _torch(beta2: float) -> Callable:
    return lambda p: torch.optim.AdamW(p, LR, (BETA1, beta2), EPS, weight_decay=0.0)


def _bitsandbytes(beta2: float) -> Callable:
    import bitsandbytes

    return lambda p: bitsandbytes.optim.AdamW8bit(
        p, lr=LR, betas=(BETA1, beta2), eps=EPS, weight_decay=0.0)


def _torchao(name: str, **options) -> Callable:
    def of(beta2: float) -> Callable:
        import torchao.optim

        return lambda p: getattr(torchao.optim, name)(
            p, lr=LR, betas=(BETA1, beta2), eps=EPS, weight_decay=0.0, **options)

    return of


def own(make: Callable, dtype: torch.dtype) -> Callable:
    return lambda start, beta2: Own(make(beta2), dtype, start)


#===------------------------------------------------------------------------===#
# Models
#===------------------------------------------------------------------------===#


def saturated_e4m3(x: torch.Tensor) -> torch.Tensor:
    """Rounds to the nearest E4M3 value and returns it as f32."""
    return x.clamp(-448, 448).to(E4M3).float()


class Model:
    """The base class of models: moments, weights and the number of steps."""

    def __init__(self, start: np.ndarray, beta2: float):
        self.param = torch.from_numpy(start.copy())
        self.m, self.v = torch.zeros_like(self.param), torch.zeros_like(self.param)
        self.beta2, self.steps = beta2, 0

    def step(self, gradient: np.ndarray) -> None:
        self.steps += 1
        with torch.no_grad():
            self.advance(torch.from_numpy(gradient))

    def average(self, gradient: torch.Tensor) -> None:
        self.m = BETA1 * self.m + (1 - BETA1) * gradient
        self.v = self.beta2 * self.v + (1 - self.beta2) * (gradient * gradient)

    @property
    def corrections(self) -> tuple[float, float]:
        return 1 - BETA1**self.steps, 1 - self.beta2**self.steps

    def advance(self, gradient: torch.Tensor) -> None:
        raise NotImplementedError

    def weights(self) -> np.ndarray:
        return self.param.double().numpy()


class Coat(Model):
    """COAT's kernel with expansion: E4M3 in groups of 128, weights in f32."""

    GROUP, STEPS_OF_K, RANGE, LEAST = 128, 16, 448 * 448 / 2, 1e-30

    def advance(self, gradient: torch.Tensor) -> None:
        self.average(gradient)
        first, second = self.corrections
        denominator = (self.v.sqrt() / math.sqrt(second) + EPS) * first
        self.param = self.param - LR * (self.m / denominator)
        self.m, self.v = self.stored(self.m), self.stored(self.v)

    def least(self, magnitudes: torch.Tensor) -> torch.Tensor:
        """Returns the kernel's minimum: a zero operand is skipped, but a zero accumulator stays."""
        lanes = magnitudes.reshape(-1, self.GROUP // 32, 32)
        for width in (16, 8, 4, 2, 1):
            lanes = self._skip(lanes[..., :width], lanes[..., width:2 * width])
        warps = self._skip(lanes[:, :2, 0], lanes[:, 2:, 0])
        return self._skip(warps[:, :1], warps[:, 1:])

    @staticmethod
    def _skip(here: torch.Tensor, arriving: torch.Tensor) -> torch.Tensor:
        return torch.where(arriving > 0, torch.fmin(here, arriving), here)

    def stored(self, x: torch.Tensor) -> torch.Tensor:
        groups = x.reshape(-1, self.GROUP)
        magnitudes = groups.abs()
        largest = magnitudes.amax(1, keepdim=True) + self.LEAST
        least = self.least(magnitudes) + self.LEAST
        k = torch.floor(math.log2(self.RANGE) / torch.log2(largest / least) * self.STEPS_OF_K)
        k = k / self.STEPS_OF_K
        middle = largest.sqrt() * least.sqrt()
        scale = (largest / middle) ** k / 448
        code = saturated_e4m3((magnitudes / middle) ** k / scale)
        read = (code * scale) ** (1 / k) * middle
        return torch.copysign(read, groups).reshape(-1)


class Flash(Model):
    """FlashOptim: softsign and root codes in groups of 32 under f16 scales."""

    GROUP = 32

    def __init__(self, start: np.ndarray, beta2: float, residual_bits: int = 0):
        super().__init__(start, beta2)
        self.levels = 2.0 ** (residual_bits - 1) - 1 if residual_bits else 0.0

    def advance(self, gradient: torch.Tensor) -> None:
        self.average(gradient)
        first, second = self.corrections
        self.param = self.param - LR * (self.m / first) / ((self.v / second).sqrt() + EPS)
        if self.levels:
            self.param = self.corrected(self.param)
        self.m, self.v = self.signed(self.m), self.unsigned(self.v)

    def corrected(self, x: torch.Tensor) -> torch.Tensor:
        """Returns a bf16 weight plus an integer code of its rounding error, in units of ulp / 2."""
        narrow = x.bfloat16().float()
        exponent = torch.frexp(narrow.abs().clamp(min=2.0**-126))[1] - 1
        half = torch.ldexp(torch.ones_like(x), exponent - 8)
        scaled = ((x - narrow) / half).clamp(-1, 1) * self.levels
        code = torch.copysign(torch.floor(scaled.abs() + 0.5), scaled)
        return narrow + code / self.levels * half

    def _scales(self, groups: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        """Returns the divisor for storing a group and the factor for reading it."""
        largest = groups.abs().amax(1, keepdim=True).clamp(min=1e-12)
        return largest, largest.half().float()

    def signed(self, x: torch.Tensor) -> torch.Tensor:
        groups = x.reshape(-1, self.GROUP)
        divisor, scale = self._scales(groups)
        y = groups / divisor
        code = torch.floor(2 * y / (1 + y.abs()) * 127 + 0.5) / 127
        return (code / (2 - code.abs()) * scale).reshape(-1)

    def unsigned(self, x: torch.Tensor) -> torch.Tensor:
        groups = x.sqrt().reshape(-1, self.GROUP)
        divisor, scale = self._scales(groups)
        root = torch.floor(groups / divisor * 255 + 0.5) / 255 * scale
        return (root * root).reshape(-1)


class MsAmp(Model):
    """MS-AMP: an E4M3 first moment and an f16 second moment under per-tensor power-of-two
    scales; `narrow` adds f16 weights and E4M3 gradients."""

    def __init__(self, start: np.ndarray, beta2: float, narrow: bool):
        super().__init__(start, beta2)
        self.narrow = narrow
        if narrow:
            self.param = self._f16(self.param)

    @staticmethod
    def _power(x: torch.Tensor, largest: float) -> float:
        peak = x.abs().max().item()
        return 2.0 ** math.floor(math.log2(largest / peak)) if peak > 0 else 1.0

    def _f16(self, x: torch.Tensor) -> torch.Tensor:
        power = self._power(x, 65504.0)
        return (x * power).half().float() / power

    def _e4m3(self, x: torch.Tensor) -> torch.Tensor:
        power = self._power(x, 448.0)
        return saturated_e4m3(x * power) / power

    def advance(self, gradient: torch.Tensor) -> None:
        self.average(self._e4m3(gradient) if self.narrow else gradient)
        first, second = self.corrections
        step = LR / first * (self.m / (self.v.sqrt() / math.sqrt(second) + EPS))
        self.param = self.param - step
        if self.narrow:
            self.param = self._f16(self.param)
        self.m, self.v = self._e4m3(self.m), self._f16(self.v)


class Collage(Model):
    """Collage-light as NeMo's optimizer computes it: every operation rounds to bf16."""

    def __init__(self, start: np.ndarray, beta2: float):
        super().__init__(start, beta2)
        self.param, self.m, self.v = (x.bfloat16() for x in (self.param, self.m, self.v))
        self.rest = torch.zeros_like(self.param)

    def average(self, gradient: torch.Tensor) -> None:
        self.m.lerp_(gradient, 1 - BETA1)
        self.average_squares(gradient)

    def average_squares(self, gradient: torch.Tensor) -> None:
        self.v.mul_(self.beta2).addcmul_(gradient, gradient, value=1 - self.beta2)

    def advance(self, gradient: torch.Tensor) -> None:
        self.average(gradient.bfloat16())
        first, second = self.corrections
        denominator = (self.v.sqrt() / math.sqrt(second)).add_(EPS)
        update = -(LR / first) * self.m / denominator
        total = self.param + update
        self.rest.add_(update - (total - self.param))
        self.param = total + self.rest
        self.rest.sub_(self.param - total)

    def weights(self) -> np.ndarray:
        return (self.param.double() + self.rest.double()).numpy()


class CollagePlus(Collage):
    """Collage-plus: second moments and beta2 also have two bf16 components.

    The released code overwrites an operand with the product; `mended` keeps the operand.
    """

    def __init__(self, start: np.ndarray, beta2: float, mended: bool):
        super().__init__(start, beta2)
        self.mended, self.v_rest = mended, torch.zeros_like(self.v)
        self.factor = torch.tensor(beta2, dtype=BF16)
        self.factor_rest = torch.tensor(beta2 - self.factor.item(), dtype=BF16)

    def average_squares(self, gradient: torch.Tensor) -> None:
        self._decay()
        addend = torch.addcmul(torch.zeros_like(gradient), gradient, gradient,
                               value=1 - self.beta2)
        total = self.v + addend
        addend = addend + (self.v - total) + self.v_rest
        self.v = total + addend
        self.v_rest = addend - (self.v - total)

    def _decay(self) -> None:
        product = self.v * self.factor
        operand = self.v if self.mended else product
        error = torch.addcmul(-product, operand, self.factor)
        rest = self.v_rest * self.factor
        rest = rest.addcmul_(operand, self.factor_rest).add_(error)
        self.v = product + rest
        # The released code reads the tensor that it has just overwritten.
        self.v_rest = rest - (self.v - (product if self.mended else self.v))


#===------------------------------------------------------------------------===#
# The list of peers
#===------------------------------------------------------------------------===#


@dataclass(frozen=True)
class Peer:
    """A peer: how it is made, and which strategies it is compared with."""

    make: Callable
    bytes: float  # of weight, gradient and states
    weights: str  # "f32", or how they are stored
    rivals: tuple[str, ...]  # the strategies it is compared with; its namesake first
    package: str = ""  # the package whose own code runs; empty for a model


def _model(kind: type[Model], *arguments) -> Callable:
    return lambda start, beta2: kind(start, beta2, *arguments)


PEERS = {
    "torch AdamW, f32": Peer(own(_torch, F32), 16, "f32", ("fp32",), "torch"),
    "torch AdamW, bf16": Peer(own(_torch, BF16), 8, "bf16", ("bf16", "bf16-dither"), "torch"),
    "torchao _AdamW, bf16, stochastic": Peer(
        own(_torchao("_AdamW", bf16_stochastic_round=True), BF16), 8, "bf16",
        ("bf16-stochastic", "bf16-dither"), "torchao"),
    "bitsandbytes AdamW8bit, f32 weights": Peer(
        own(_bitsandbytes, F32), 10.03, "f32", ("adam8bit, f32 weights",), "bitsandbytes"),
    "bitsandbytes AdamW8bit, bf16": Peer(
        own(_bitsandbytes, BF16), 6.03, "bf16", ("adam8bit",), "bitsandbytes"),
    "torchao AdamW8bit, f32 weights": Peer(
        own(_torchao("AdamW8bit"), F32), 10.03, "f32", ("adam8bit, f32 weights",), "torchao"),
    "torchao AdamW8bit, bf16": Peer(
        own(_torchao("AdamW8bit"), BF16), 6.03, "bf16", ("adam8bit",), "torchao"),
    "torchao AdamW8bit, bf16, stochastic": Peer(
        own(_torchao("AdamW8bit", bf16_stochastic_round=True), BF16), 6.03, "bf16", ("adam8bit",),
        "torchao"),
    "torchao AdamW4bit, f32 weights": Peer(
        own(_torchao("AdamW4bit"), F32), 9.06, "f32", ("adam8bit, f32 weights",), "torchao"),
    "torchao AdamWFp8, f32 weights": Peer(
        own(_torchao("AdamWFp8"), F32), 10.03, "f32", ("coat, f32 weights",), "torchao"),
    "COAT, f32 weights": Peer(_model(Coat), 10.19, "f32", ("coat, f32 weights",)),
    "FlashOptim, f32 weights": Peer(_model(Flash), 10.13, "f32", ("flash, f32 weights",)),
    "FlashOptim, 24 bits": Peer(_model(Flash, 8), 7.13, "bf16 + 8 bits", ("flash",)),
    "FlashOptim, 32 bits": Peer(_model(Flash, 16), 8.13, "bf16 + 16 bits", ("flash-32",)),
    "MS-AMP, f32 weights": Peer(_model(MsAmp, False), 11, "f32", ("fp8-lm, f32 weights",)),
    "MS-AMP": Peer(_model(MsAmp, True), 6, "f16", ("fp8-lm",)),
    "Collage light": Peer(_model(Collage), 10, "two bf16",
                          ("collage-light", "collage-light-f32")),
    "Collage plus, mended": Peer(_model(CollagePlus, True), 12, "two bf16",
                                 ("collage-plus", "collage-plus-f32")),
    "Collage plus": Peer(_model(CollagePlus, False), 12, "two bf16", ("collage-plus",)),
}


def version(package: str) -> str | None:
    """Returns a package's version, or None if it is not installed."""
    try:
        return importlib.metadata.version(package)
    except importlib.metadata.PackageNotFoundError:
        return None


def absent() -> list[str]:
    """Returns the peers whose packages are not installed."""
    return [name for name, peer in PEERS.items() if peer.package and not version(peer.package)]
