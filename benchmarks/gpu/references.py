#===- references.py - Updates as single operations in torch ----*- Python -*-===#
# Part of the Tandem project, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#===----------------------------------------------------------------------===#
#
# This file implements AdamW under three strategies with torch's tensor operations, each of which
# rounds as Tandem's do. The bits of other kernels are compared with these.
#
#===----------------------------------------------------------------------===#
"""Each function maps planes to new planes; `planes_of` makes initial ones."""

import eager_collage
import torch

H = eager_collage.Hypers()


def scalars():
    """Returns the factors of an update in f32, each computed in double precision."""
    power = eager_collage._power
    return (H.beta1, 1 - H.beta1, H.beta2, 1 - H.beta2, 1 / (1 - power(H.beta1, H.step)),
            1 / (1 - power(H.beta2, H.step)), H.eps, -H.lr, H.weight_decay)


def _update(p, g, m, v):
    b1, c1, b2, c2, r1, r2, eps, neg_lr, decay = (
        torch.tensor(x, dtype=torch.float64).float().item() for x in scalars())
    m = m * b1 + g * c1
    v = v * b2 + (g * g) * c2
    # PyTorch's f32 square root on CPUs is not always correctly rounded, so use f64.
    root = torch.sqrt((v * r2).double()).float()
    u = (m * r1) / (root + eps) + p * decay
    return p + u * neg_lr, m, v


def fp32(planes):
    p, m, v = _update(*(planes[n] for n in ("param", "grad", "exp_avg", "exp_avg_sq")))
    return {"param": p, "exp_avg": m, "exp_avg_sq": v}


def collage_plus(planes):
    names = ("param", "param.lo", "grad", "exp_avg", "exp_avg_sq", "exp_avg_sq.lo")
    new = eager_collage.update(*(planes[name] for name in names), H)
    return dict(zip([name for name in names if name != "grad"], new))


def _encode(x, floor):
    """Returns codes and scales; with a floor, no positive value becomes zero."""
    groups = x.view(-1, 128)
    amax = groups.abs().amax(dim=1, keepdim=True)
    scale = torch.where(amax == 0, 1.0, (amax / 448.0).clamp_(min=2.0**-126))
    scaled = groups / scale
    if floor:
        scaled = torch.where(groups > 0, scaled.clamp(min=2.0**-9), scaled)
    return scaled.to(torch.float8_e4m3fn).view(-1), scale.view(-1)


def e4m3_groups(planes):
    def decoded(name):
        return (planes[name].view(-1, 128).float() * planes[f"{name}.scale"][:, None]).view(-1)

    p, m, v = _update(planes["param"].float(), planes["grad"].float(),
                      decoded("exp_avg"), decoded("exp_avg_sq"))
    new = {"param": p.bfloat16()}
    for name, value in (("exp_avg", m), ("exp_avg_sq", v)):
        new[name], new[f"{name}.scale"] = _encode(value, name == "exp_avg_sq")
    return new


def planes_of(strategy, count, device, seed=0):
    """Returns a state in the middle of training; `count` must be a multiple of 128."""
    generator = torch.Generator(device).manual_seed(seed)
    random = {name: torch.randn(count, generator=generator, device=device) * scale
              for name, scale in (("param", 0.02), ("grad", 1e-3), ("exp_avg", 1e-3))}
    random["exp_avg_sq"] = (torch.randn(count, generator=generator, device=device) * 1e-3) ** 2
    if strategy == "fp32":
        return random
    wide = random | {}
    planes = {name: wide[name].bfloat16() for name in ("param", "grad")}
    for name in ("exp_avg", "exp_avg_sq"):
        if strategy == "e4m3-groups":
            planes[name], planes[f"{name}.scale"] = _encode(wide[name],
                                                            name == "exp_avg_sq")
        else:
            planes[name] = wide[name].bfloat16()
    if strategy == "collage-plus":
        for name in ("param", "exp_avg_sq"):
            planes[f"{name}.lo"] = (wide[name] - planes[name].float()).bfloat16()
    return planes


REFERENCES = {"fp32": fp32, "collage-plus": collage_plus, "e4m3-groups": e4m3_groups}
#: The bytes that a step reads and writes per element.
BYTES = {"fp32": 28, "collage-plus": 22, "e4m3-groups": 10 + 16 / 128}
