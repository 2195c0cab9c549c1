#===- listings.py - The graphs as plain expressions ------------*- Python -*-===#
# Part of the Tandem project, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#===----------------------------------------------------------------------===#
#
# This file implements the optimizer graphs as float32 expressions, with which the model is
# compared.
#
#===----------------------------------------------------------------------===#
"""`LISTINGS[graph](float32, gradient, param, states, hypers, step)` returns the new values."""

from functools import partial

import numpy as np


def adam_listing(f, g, th, s, h, t, denominator=None, decay="added", result=None):
    power = lambda b: {1: b, 2: b * b, 3: b * (b * b)}[t]
    if decay == "gradient":
        g = g + f(h["weight_decay"]) * th
    m = f(h["beta1"]) * s["exp_avg"] + f(1 - h["beta1"]) * g
    v = f(h["beta2"]) * s["exp_avg_sq"] + f(1 - h["beta2"]) * (g * g)
    mh, vh = m * f(1 / (1 - power(h["beta1"]))), v * f(1 / (1 - power(h["beta2"])))
    d = np.sqrt(vh + f(h["eps"])) if denominator == "inside" else np.sqrt(vh) + f(h["eps"])
    u = mh / d
    if decay == "added":
        u = u + f(h["weight_decay"]) * th
    if result == "update":
        return u
    if decay == "before":
        th = f(1 - h["lr"] * h["weight_decay"]) * th
    th = th + f(-h["lr"]) * u
    if decay == "after":
        th = th + f(-(h["lr"] * h["weight_decay"])) * th
    return {"param": th, "exp_avg": m, "exp_avg_sq": v}


def adamw_ratio_listing(f, g, th, s, h, t, decay="added"):
    power = lambda b: {1: b, 2: b * b, 3: b * (b * b)}[t]
    m = s["ratio"] * np.sqrt(s["exp_avg_sq"])
    m = f(h["beta1"]) * m + f(1 - h["beta1"]) * g
    v = f(h["beta2"]) * s["exp_avg_sq"] + f(1 - h["beta2"]) * (g * g)
    root = np.sqrt(v)
    ratio = np.where(root == 0, f(0), m / root)
    denominator = np.sqrt(v * f(1 / (1 - power(h["beta2"])))) + f(h["eps"])
    u = m * f(1 / (1 - power(h["beta1"]))) / denominator
    if decay == "added":
        u = u + f(h["weight_decay"]) * th
    else:
        th = f(1 - h["lr"] * h["weight_decay"]) * th
    return {"param": th + f(-h["lr"]) * u, "ratio": ratio, "exp_avg_sq": v}


def momentum_listing(f, g, th, s, h, t, nesterov=False):
    g = g + f(h["weight_decay"]) * th
    b = f(h["momentum"]) * s["momentum_buffer"] + g
    n = g + f(h["momentum"]) * b if nesterov else b
    return {"param": th + f(-h["lr"]) * n, "momentum_buffer": b}


def sgd_listing(f, g, th, s, h, t):
    return {"param": th + f(-h["lr"]) * (g + f(h["weight_decay"]) * th)}


def lion_listing(f, g, th, s, h, t):
    c = f(h["beta1"]) * s["exp_avg"] + f(1 - h["beta1"]) * g
    sign = np.where(c == 0, c, np.sign(c))  # np.sign(-0.0) is +0.0
    u = sign + f(h["weight_decay"]) * th
    m = f(h["beta2"]) * s["exp_avg"] + f(1 - h["beta2"]) * g
    return {"param": th + f(-h["lr"]) * u, "exp_avg": m}


def rmsprop_listing(f, g, th, s, h, t):
    g = g + f(h["weight_decay"]) * th
    v = f(h["alpha"]) * s["square_avg"] + f(1 - h["alpha"]) * (g * g)
    d = np.sqrt(v) + f(h["eps"])
    return {"param": th + f(-h["lr"]) * (g / d), "square_avg": v}


def powers(t):
    return lambda b: {1: b, 2: b * b, 3: b * (b * b)}[t]


def nadam_listing(f, g, th, s, h, t):
    g = g + f(h["weight_decay"]) * th
    m = f(h["beta1"]) * s["exp_avg"] + f(1 - h["beta1"]) * g
    v = f(h["beta2"]) * s["exp_avg_sq"] + f(1 - h["beta2"]) * (g * g)
    d = np.sqrt(v * f(1 / (1 - powers(t)(h["beta2"])))) + f(h["eps"])
    u = (f(h["ahead"]) * g + f(h["back"]) * m) / d
    return {"param": th + f(-h["lr"]) * u, "exp_avg": m, "exp_avg_sq": v}


def radam_listing(f, g, th, s, h, t):
    g = g + f(h["weight_decay"]) * th
    m = f(h["beta1"]) * s["exp_avg"] + f(1 - h["beta1"]) * g
    v = f(h["beta2"]) * s["exp_avg_sq"] + f(1 - h["beta2"]) * (g * g)
    d = f(h["adaptive"]) * (np.sqrt(v) + f(h["eps"])) + f(1 - h["adaptive"])
    u = f(h["scale"]) * (m * f(1 / (1 - powers(t)(h["beta1"])))) / d
    return {"param": th + f(-h["lr"]) * u, "exp_avg": m, "exp_avg_sq": v}


def adamax_listing(f, g, th, s, h, t):
    g = g + f(h["weight_decay"]) * th
    m = f(h["beta1"]) * s["exp_avg"] + f(1 - h["beta1"]) * g
    old = f(h["beta2"]) * s["exp_inf"]
    over = (np.abs(g) + f(h["eps"])) - old
    u = old + np.where(over > 0, over, f(0))
    rate = h["lr"] / (1 - powers(t)(h["beta1"]))
    return {"param": th + f(-rate) * (m / u), "exp_avg": m, "exp_inf": u}


def adan_listing(f, g, th, s, h, t):
    power = powers(t)
    x = f(h["difference"]) * (g - s["previous"])
    m = f(h["beta1"]) * s["exp_avg"] + f(1 - h["beta1"]) * g
    d = f(h["beta2"]) * s["exp_avg_diff"] + f(1 - h["beta2"]) * x
    y = g + f(h["beta2"]) * x
    v = f(h["beta3"]) * s["exp_avg_sq"] + f(1 - h["beta3"]) * (y * y)
    mix = m * f(1 / (1 - power(h["beta1"]))) + d * f(h["beta2"] / (1 - power(h["beta2"])))
    u = mix / (np.sqrt(v * f(1 / (1 - power(h["beta3"])))) + f(h["eps"]))
    keep = 1 / (1 + h["lr"] * h["weight_decay"])
    return {"param": f(keep) * th + f(-(h["lr"] * keep)) * u, "exp_avg": m, "exp_avg_diff": d,
            "exp_avg_sq": v, "previous": g}


def asgd_listing(f, g, th, s, h, t):
    g = g + f(h["weight_decay"]) * th
    th = f(1 - h["lr"] * h["lambd"]) * th + f(-h["lr"]) * g
    return {"param": th, "ax": s["ax"] + f(h["mixing"]) * (th - s["ax"])}


def rprop_listing(f, g, th, s, h, t):
    size = np.where(s["step_size"] == 0, f(h["lr"]), s["step_size"])
    product = g * s["previous"]
    factor = np.where(product < 0, f(h["etaminus"]), np.where(product > 0, f(h["etaplus"]), f(1)))
    scaled = factor * size
    scaled = np.where(scaled < f(h["least"]), f(h["least"]), scaled)
    scaled = np.where(scaled > f(h["most"]), f(h["most"]), scaled)
    g = np.where(product < 0, f(0), g)
    size = s["step_size"] + (scaled - s["step_size"])
    sign = np.where(g > 0, f(-1), np.where(g < 0, f(1), -g))
    return {"param": th + size * sign, "previous": g, "step_size": size}


def ademamix_listing(f, g, th, s, h, t):
    power = lambda b: {1: b, 2: b * b, 3: b * (b * b)}[t]
    m = f(h["beta1"]) * s["exp_avg"] + f(1 - h["beta1"]) * g
    slow = f(h["beta3"]) * s["exp_avg_slow"] + f(1 - h["beta3"]) * g
    v = f(h["beta2"]) * s["exp_avg_sq"] + f(1 - h["beta2"]) * (g * g)
    d = np.sqrt(v * f(1 / (1 - power(h["beta2"])))) + f(h["eps"])
    u = (m * f(1 / (1 - power(h["beta1"]))) + slow * f(h["alpha"])) / d
    th = th + f(-h["lr"]) * (u + f(h["weight_decay"]) * th)
    return {"param": th, "exp_avg": m, "exp_avg_slow": slow, "exp_avg_sq": v}


def adamw_schedule_free_listing(f, g, th, s, h, t):
    power = lambda b: {1: b, 2: b * b, 3: b * (b * b)}[t]
    c, lead = h["mixing"], h["lr"] * (h["beta1"] * (1 - h["mixing"]))
    v = f(h["beta2"]) * s["exp_avg_sq"] + f(1 - h["beta2"]) * (g * g)
    u = g / (np.sqrt(v * f(1 / (1 - power(h["beta2"])))) + f(h["eps"])) + f(h["weight_decay"]) * th
    back = h["lr"] * (h["beta1"] * (1 - c) - 1)
    return {"param": th + (f(c) * s["offset"] + f(back) * u),
            "offset": f(1 - c) * s["offset"] + f(-lead) * u, "exp_avg_sq": v}


def adagrad_listing(f, g, th, s, h, t):
    g = g + f(h["weight_decay"]) * th
    v = s["sum"] + g * g
    d = np.sqrt(v) + f(h["eps"])
    rate = h["lr"] / (1 + (t - 1) * h["lr_decay"])
    return {"param": th + f(-rate) * (g / d), "sum": v}


def listed_sum(x):
    """Sums recursively, neighbours first."""
    if len(x) == 1:
        return x[0]
    half = 1 << (len(x) - 1).bit_length() - 1
    return listed_sum(x[:half]) + listed_sum(x[half:])


def lamb_listing(f, g, th, s, h, t):
    new = adam_listing(f, g, th, s, h, t)
    u = adam_listing(f, g, th, s, h, t, result="update")
    length, update = (np.sqrt(listed_sum(x * x)) for x in (th, u))
    trust = length / update if length > 0 and update > 0 else f(1)
    return new | {"param": th + (f(-h["lr"]) * trust) * u}


def adamw_clip_listing(f, g, th, s, h, t, listing=adam_listing):
    quotient = f(h["max_norm"]) / (np.sqrt(listed_sum(g * g)) + f(1e-6))
    return listing(f, g * (quotient if quotient < 1 else f(1)), th, s, h, t)


def adafactor_vector_listing(f, g, th, s, h, t):
    v = f(1 - h["mixing"]) * s["variance"] + f(h["mixing"]) * (g * g)
    least = f(h["eps1"] * h["eps1"])
    u = g / np.sqrt(np.where(v < least, least, v))
    mean = lambda x: np.sqrt(listed_sum(x * x) / f(len(x)))
    size, excess = mean(th), mean(u) / f(h["d"])
    size = f(h["eps2"]) if size < f(h["eps2"]) else size
    rate = f(-h["rho"]) * size / (f(1) if excess < f(1) else excess)
    return {"param": f(1 - h["lr"] * h["weight_decay"]) * th + rate * u, "variance": v}


def cautious_listing(f, g, th, h, u, along):
    count = listed_sum(np.where(along > 0, f(1), f(0)))
    mean = count / f(len(g))
    rate = f(-h["lr"]) / (f(1e-3) if mean < f(1e-3) else mean)
    return f(1 - h["lr"] * h["weight_decay"]) * th + rate * np.where(along > 0, u, f(0))


def adamw_cautious_listing(f, g, th, s, h, t):
    new = adam_listing(f, g, th, s, h, t)
    u = adam_listing(f, g, th, s, h, t, decay="before", result="update")
    return new | {"param": cautious_listing(f, g, th, h, u, new["exp_avg"] * g)}


def lion_cautious_listing(f, g, th, s, h, t):
    c = f(h["beta1"]) * s["exp_avg"] + f(1 - h["beta1"]) * g
    u = np.where(c > 0, f(1), np.where(c < 0, f(-1), c))
    return {"param": cautious_listing(f, g, th, h, u, u * g),
            "exp_avg": f(h["beta2"]) * s["exp_avg"] + f(1 - h["beta2"]) * g}


def adadelta_listing(f, g, th, s, h, t):
    g = g + f(h["weight_decay"]) * th
    v = f(h["rho"]) * s["square_avg"] + f(1 - h["rho"]) * (g * g)
    u = np.sqrt(s["acc_delta"] + f(h["eps"])) / np.sqrt(v + f(h["eps"])) * g
    d = f(h["rho"]) * s["acc_delta"] + f(1 - h["rho"]) * (u * u)
    return {"param": th + f(-h["lr"]) * u, "square_avg": v, "acc_delta": d}


def mars_listing(f, g, th, s, h, t):
    share = h["gamma"] * (h["beta1"] / (1 - h["beta1"]))
    c = f(1 + share) * g + f(-share) * s["last_grad"]
    norm, limit = np.sqrt(listed_sum(c * c)), f(h["limit"])
    c = c * (limit / norm if norm > limit else f(1))
    return adam_listing(f, c, th, s, h, t) | {"last_grad": g}


def prodigy_listing(f, g, th, s, h, t):
    excess = np.sqrt(1 - h["beta2"] ** t) / (1 - h["beta1"] ** t) - 1
    dlr = h["d"] * (h["lr"] * (1 + h["bias_correction"] * excess))
    start = s["p0"] + f(t == 1) * (th - s["p0"])
    gains = f(h["d"] / h["d0"] * dlr) * (g * (start - th))
    rate = h["d"] if h["safeguard"] else dlr
    sums = f(h["s_beta"]) * s["s"] + f(h["d"] / h["d0"] * rate) * g
    numerator = f(h["s_beta"] * h["d_numerator"]) + listed_sum(gains)
    found = f(h["d_coef"]) * numerator / listed_sum(np.abs(sums))
    d = max(f(h["d"]), found) if h["fresh"] else f(h["d"])
    d = min(max(f(h["d_max"]), found), d * f(h["growth_rate"]))
    m = f(h["beta1"]) * s["exp_avg"] + f(h["d"] * (1 - h["beta1"])) * g
    v = f(h["beta2"]) * s["exp_avg_sq"] + f(h["d"] * h["d"] * (1 - h["beta2"])) * (g * g)
    update = m / (np.sqrt(v) + d * f(h["eps"])) + f(h["weight_decay"]) * th
    return {"param": th + f(-dlr) * update, "exp_avg": m, "exp_avg_sq": v, "s": sums, "p0": start}


def soap_vector_listing(f, g, th, s, h, t):
    share1, share2 = (h["moves"] * (1 - h[name]) for name in ("beta1", "beta2"))
    m = f(1 - share1) * s["exp_avg"] + f(share1) * g
    v = f(1 - share2) * s["exp_avg_sq"] + f(share2) * (g * g)
    th = th + f(-(h["moves"] * h["rate"])) * (m / (np.sqrt(v) + f(h["eps"])))
    return {"param": th + f(-(h["moves"] * h["lr"] * h["weight_decay"])) * th, "exp_avg": m,
            "exp_avg_sq": v}


def came_vector_listing(f, g, th, s, h, t):
    v = f(h["beta2"]) * s["exp_avg_sq"] + f(1 - h["beta2"]) * (g * g + f(h["eps1"]))
    u = g / np.sqrt(v)
    excess = np.sqrt(listed_sum(u * u) / f(len(g))) / f(h["clip_threshold"])
    u = u * (f(1) / (f(1) if excess < 1 else excess))
    m = f(h["beta1"]) * s["exp_avg"] + f(1 - h["beta1"]) * u
    return {"param": f(1 - h["lr"] * h["weight_decay"]) * th + f(-h["lr"]) * m,
            "exp_avg": m, "exp_avg_sq": v}


# The graphs again, as plain float32 expressions.
LISTINGS = {
    "adamw": adam_listing,
    "adamw_ratio": adamw_ratio_listing,
    "adamw_ratio_decay_before": partial(adamw_ratio_listing, decay="before"),
    "adamw_eps_inside_root": partial(adam_listing, denominator="inside"),
    "adamw_decay_before": partial(adam_listing, decay="before"),
    "adamw_decay_after": partial(adam_listing, decay="after"),
    "adam": partial(adam_listing, decay="gradient"),
    "sgd": sgd_listing,
    "sgd_momentum": momentum_listing,
    "sgd_nesterov": partial(momentum_listing, nesterov=True),
    "lion": lion_listing,
    "rmsprop": rmsprop_listing,
    "adagrad": adagrad_listing,
    "ademamix": ademamix_listing,
    "nadam": nadam_listing,
    "radam": radam_listing,
    "adamax": adamax_listing,
    "adan": adan_listing,
    "asgd": asgd_listing,
    "rprop": rprop_listing,
    "adamw_schedule_free": adamw_schedule_free_listing,
    "adadelta": adadelta_listing,
    "adamw_cautious": adamw_cautious_listing,
    "lion_cautious": lion_cautious_listing,
    "lamb": lamb_listing,
    "adamw_clip": adamw_clip_listing,
    "adamw_ratio_clip": partial(adamw_clip_listing, listing=adamw_ratio_listing),
    "mars": mars_listing,
    "prodigy": prodigy_listing,
    "came_vector": came_vector_listing,
    "soap_vector": soap_vector_listing,
    "adafactor_vector": adafactor_vector_listing,
}
