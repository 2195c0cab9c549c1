#===- zero_ranks.py - ZeRO with whole tensors on ranks ---------*- Python -*-===#
# Part of the Tandem project, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#===----------------------------------------------------------------------===#
#
# This file implements the ranks in the tests of ZeroRedundancyOptimizer: each function compares
# with one process that has all parameters and the same gradients.
#
#===----------------------------------------------------------------------===#
"""Implements functions for `support.gloo.run_ranks`."""

import io

import torch
import torch.distributed as dist

import tandem.torch as tt
from tandem.torch.distributed import ZeroRedundancyOptimizer, stored_bytes
from tandem.torch.distributed._codec import codec
from support.torch_bits import parameters

SHAPES = [(24, 40), (40,), (130, 33), (7,), (64, 65), (1,), (33, 9)]
CASES = [("AdamW", name) for name in
         ("collage-plus", "fp8-lm", "fp8-collage-plus", "adam8bit", "coat", "flash-f16",
          "dither-softsign-root", "remainder")] + [
    (optimizer, name) for optimizer in ("LAMB", "Adafactor")
    for name in ("collage-plus", "fp8-lm")]
OPTIONS = {"lr": 1e-2, "min_8bit_size": 0, "seed": 5}


def equal(first, second):
    """Returns whether two lists of tensors have the same bits."""
    return all(torch.equal(a.detach().contiguous().view(torch.uint8).flatten(),
                           b.detach().contiguous().view(torch.uint8).flatten())
               for a, b in zip(first, second, strict=True))


def set_gradients(params, step):
    generator = torch.Generator().manual_seed(step)
    for param in params:
        param.grad = torch.randn(param.shape, generator=generator).to(param.dtype)


def dtype_for(strategy):
    return torch.float16 if "f16" in strategy and strategy != "flash-f16" else torch.bfloat16


def train(params, optimizer, steps, first=0):
    for step in range(first, first + steps):
        set_gradients(params, step)
        optimizer.step()
        optimizer.zero_grad()


def _compare(name, strategy):
    """Compares a rank's weights and states with one process after three steps."""
    options = OPTIONS | {"strategy": strategy}
    ours, theirs = (parameters(SHAPES, dtype_for(strategy)) for _ in range(2))
    zero = ZeroRedundancyOptimizer(ours, getattr(tt, name), **options)
    alone = getattr(tt, name)(theirs, **options)
    train(ours, zero, 3)
    train(theirs, alone, 3)
    if not equal(ours, theirs):
        return "other weights"
    if not 0 < len(zero.optim.state) < len(SHAPES):
        return f"{len(zero.optim.state)} states"
    for mine, other in zip(ours, theirs):
        for plane, value in zero.optim.state.get(mine, {}).items():
            wanted = alone.state[other][plane]
            if torch.is_tensor(value) and not equal([value], [wanted]) or (
                    not torch.is_tensor(value) and value != wanted):
                return f"another {plane}"
    return "right"


def cases():
    return {f"{name}-{strategy}": _compare(name, strategy) for name, strategy in CASES}


def skips():
    """Checks that a rank skips a step if any rank has a nonfinite gradient."""
    options = OPTIONS | {"strategy": "fp8-lm", "skip_nonfinite": True}
    ours, theirs = parameters(SHAPES), parameters(SHAPES)
    zero = ZeroRedundancyOptimizer(ours, tt.AdamW, **options)
    alone = tt.AdamW(theirs, **options)
    for bad in (None, *range(len(SHAPES)), None):
        for params, optimizer in ((ours, zero), (theirs, alone)):
            set_gradients(params, 1)
            if bad is not None:
                params[bad].grad.view(-1)[0] = torch.inf
            optimizer.step()
            optimizer.zero_grad()
        if zero.optim.skipped != (bad is not None):
            return f"another answer for parameter {bad}"
        if not equal(ours, theirs):
            return f"other weights for parameter {bad}"
    return "right"


def consolidated(zero):
    """Returns the state of all ranks on each of them, pickled as torch.save does, which supports
    8-bit floats."""
    zero.consolidate_state_dict(to=0)
    file = io.BytesIO()
    torch.save(zero.state_dict() if dist.get_rank() == 0 else None, file)
    sent = [file.getvalue()]
    dist.broadcast_object_list(sent, src=0)
    return torch.load(io.BytesIO(sent[0]), weights_only=False)


def groups():
    """Checks that groups under different strategies, one added later, are balanced by bytes."""
    ours, theirs = parameters(SHAPES), parameters(SHAPES)

    def made(params, build):
        optimizer = build([{"params": params[:2], "strategy": "fp32-optim"},
                           {"params": params[2:5], "strategy": "adam8bit"}])
        before = getattr(optimizer, "_rank_of", {}).copy()
        optimizer.add_param_group({"params": params[5:], "strategy": "collage-plus"})
        after = getattr(optimizer, "_rank_of", {})
        assert all(after[p] == rank for p, rank in before.items())
        return optimizer

    zero = made(ours, lambda given: ZeroRedundancyOptimizer(given, tt.AdamW, **OPTIONS))
    alone = made(theirs, lambda given: tt.AdamW(given, **OPTIONS))
    train(ours, zero, 2)
    train(theirs, alone, 2)
    loads = [0] * dist.get_world_size()
    for param, size in zip(ours, stored_bytes(alone)):
        loads[zero._rank_of[param]] += size
    assert loads == zero._loads, (loads, zero._loads)
    return "right" if equal(ours, theirs) else "other weights"


def checkpoints():
    """Resumes from a consolidated state in one process and on these ranks."""
    for strategy in ("fp8-lm", "adam8bit"):
        options = OPTIONS | {"strategy": strategy}
        ours, theirs = parameters(SHAPES), parameters(SHAPES)
        zero = ZeroRedundancyOptimizer(ours, tt.AdamW, **options)
        train(ours, zero, 2)
        train(theirs, tt.AdamW(theirs, **options), 3)
        saved = consolidated(zero)
        for build in (lambda p: tt.AdamW(p, **options),
                      lambda p: ZeroRedundancyOptimizer(p, tt.AdamW, **options)):
            again = [torch.nn.Parameter(p.detach().clone()) for p in ours]
            optimizer = build(again)
            optimizer.load_state_dict(saved)
            train(again, optimizer, 1, first=2)
            if not equal(again, theirs):
                return f"other weights under {strategy}"
        other = ZeroRedundancyOptimizer(ours, tt.AdamW, strategy="collage-plus")
        try:
            other.load_state_dict(saved)
            return "a state of another strategy was taken"
        except ValueError as error:
            assert "convert_state" in str(error), error
    return "right"


def few():
    """Checks that a rank may have no parameters."""
    ours, theirs = parameters([(8, 8)]), parameters([(8, 8)])
    train(ours, ZeroRedundancyOptimizer(ours, tt.AdamW, **OPTIONS), 2)
    train(theirs, tt.AdamW(theirs, **OPTIONS), 2)
    return "right" if equal(ours, theirs) else "other weights"


def weight_codes():
    """Checks that sent codes are those of the weights of one process."""
    options, e4m3 = OPTIONS | {"strategy": "fp8-lm"}, codec("f8E4M3FN")
    ours, theirs = parameters(SHAPES), parameters(SHAPES)
    zero = ZeroRedundancyOptimizer(ours, tt.AdamW, weight_codes=ours[:5], **options)
    alone = tt.AdamW(theirs, **options)

    def wanted():
        return [e4m3.decode(*e4m3.encode(p.detach()), p.dtype) if i < 5 else p
                for i, p in enumerate(theirs)]

    for step in range(3):
        if step == 1:  # a weight that is written manually counts
            for params in (ours, theirs):
                params[0].data[3] = 2.5
        train(ours, zero, 1, first=step)
        train(theirs, alone, 1, first=step)
        if not equal(ours, wanted()):
            return f"other weights after step {step}"
    again = [torch.nn.Parameter(p.detach().clone()) for p in ours]
    second = ZeroRedundancyOptimizer(again, tt.AdamW, weight_codes=again[:5], **options)
    second.load_state_dict(consolidated(zero))
    train(again, second, 1, first=3)
    train(theirs, alone, 1, first=3)
    return "right" if equal(again, wanted()) else "other weights after loading"


class Small(torch.nn.Module):
    def __init__(self):
        super().__init__()
        torch.manual_seed(1)
        self.up, self.norm = torch.nn.Linear(32, 64), torch.nn.LayerNorm(64)
        self.down = torch.nn.Linear(64, 32)
        self.bfloat16()

    def forward(self, x):
        return self.down(self.norm(self.up(x)).relu())


def under_ddp():
    """Checks DistributedDataParallel, with parameters as views of buckets."""
    for strategy, views in (("fp8-lm", False), ("collage-plus", True)):
        model, reference = Small(), Small()
        wrapped = torch.nn.parallel.DistributedDataParallel(model)
        options = OPTIONS | {"strategy": strategy}
        zero = ZeroRedundancyOptimizer(wrapped.parameters(), tt.AdamW,
                                       parameters_as_bucket_view=views, **options)
        alone = tt.AdamW(reference.parameters(), **options)
        for step in range(3):
            torch.manual_seed(10 * step + dist.get_rank())
            wrapped(torch.randn(4, 32).bfloat16()).float().square().mean().backward()
            for ours, theirs in zip(model.parameters(), reference.parameters(), strict=True):
                theirs.grad = ours.grad.clone()
            zero.step()
            zero.zero_grad()
            alone.step()
            alone.zero_grad()
            if not equal(model.parameters(), reference.parameters()):
                return f"other weights under {strategy} after step {step}"
    return "right"


def level_o3():
    """Compares FP8-LM's level O3 with its strategy in one process, for the same gradient sums."""
    torch.manual_seed(dist.get_rank())
    model, reference = Small(), Small()
    optimizer = tt.fp8_lm(model, "O3", lr=1e-2, seed=5)
    coded = optimizer.param_groups[0]["params"]
    twins = dict(zip(model.parameters(), reference.parameters(), strict=True))
    alone = tt.AdamW([{**group, "params": [twins[p] for p in group["params"]]}
                      for group in optimizer.param_groups], lr=1e-2, seed=5)
    e4m3, reduce, losses = codec("f8E4M3FN"), optimizer.all_reduce, []

    def all_reduce():
        reduce()
        for p, twin in twins.items():
            twin.grad = None if p.grad is None else p.grad.clone()
            if planes := optimizer._encoder._gradients.get(p):
                alone._gradients.replace(twin, [plane.clone() for plane in planes])

    optimizer.all_reduce = all_reduce
    for _ in range(6):
        loss = model(x := torch.randn(16, 32).bfloat16()).sub(x).float().square().mean()
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        alone.step()
        losses.append(loss.item())
        if not equal(twins, [e4m3.decode(*e4m3.encode(twin.detach()), twin.dtype)
                             if any(p is q for q in coded) else twin
                             for p, twin in twins.items()]):
            return "other weights"
    assert losses[-1] < losses[0], losses
    owned = sum(p in optimizer.optim.state for p in twins)
    return "right" if 0 < owned < len(twins) else f"{owned} states"


def refusals():
    """Returns the text of each error."""
    params = parameters(SHAPES)
    given = {
        "class": lambda: ZeroRedundancyOptimizer(params, torch.optim.AdamW),
        "overlap": lambda: ZeroRedundancyOptimizer(params, tt.AdamW, overlap_with_ddp=True),
        "max_norm": lambda: ZeroRedundancyOptimizer(params, tt.AdamW, max_norm=1.0),
        "bucket": lambda: ZeroRedundancyOptimizer(
            [*params, torch.nn.Parameter(torch.zeros(3))], tt.AdamW,
            parameters_as_bucket_view=True),
        "shapes": lambda: ZeroRedundancyOptimizer(
            parameters([(3 + dist.get_rank(),), (2,)]), tt.AdamW),
        "seeds": lambda: ZeroRedundancyOptimizer(params, tt.AdamW, seed=dist.get_rank()),
        "visible": lambda: ZeroRedundancyOptimizer(params, tt.AdamW, weight_codes=params),
        "unknown": lambda: ZeroRedundancyOptimizer(
            params, tt.AdamW, weight_codes=parameters([(3,)]), strategy="fp8-lm"),
        "views": lambda: ZeroRedundancyOptimizer(
            params, tt.AdamW, parameters_as_bucket_view=True, weight_codes=params,
            strategy="fp8-lm"),
    }
    told = {}
    for name, call in given.items():
        try:
            call()
            told[name] = "taken"
        except (TypeError, ValueError) as error:
            told[name] = str(error)
    return told
