#===- reasons.py - Why orderings of the paper fail here --------*- Python -*-===#
# Part of the Tandem project, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#===----------------------------------------------------------------------===#
#
# This file lists the reasons why orderings of the paper fail at toy size, and caveats about those
# that hold.
#
#===----------------------------------------------------------------------===#
"""Reasons by the names of the checks in checks.py, which papers.sh --check requires."""

REASONS: dict[str, str] = {
    "exponents-fail":
        "E7M7 gives the same losses as E8M7 here, digit for digit: after training, the magnitudes "
        "of all factors, results and gradients of linear layers lie far within what E7 holds (the last "
        "two columns of the table), so that the masks have nothing to clamp. A failure needs magnitudes "
        "beyond 2^64 or so, which the paper does not report. Clamped at both ends, E5M7, E4M7 and "
        "E3M7 do fail here.",
    "exponents-outside":
        "No magnitude reaches E7's largest number. With fewer bits it is the other end that matters: "
        "E4M7 fails clamped inside and trains clamped outside. Clamped inside, it raises all "
        "magnitudes below 2^-6 to 2^-6, and the gradient of each logit is at most 1/256, since the "
        "loss is a mean over 256 characters; its largest number, 255, is above all magnitudes "
        "of a run that trains.",
    "sharpness-order":
        "From E8M7 to E8M3 sharpness stays between 0.070 and 0.080 at every checkpoint, and the "
        "order of the formats changes from one to the next. Three mantissa bits are enough for such a "
        "small model and few steps. The paper's pattern begins two bits lower, with E8M1.",
    "sharpness-rises":
        "It rises by 8 % under E8M3 and by 7 % under E8M7, since both have enough bits. "
        "Under E8M1 it rises to 1.8 times, and under E8M0 to 5.1 times.",
    "sharpness-epsilon":
        "Sharpness is nearly proportional to epsilon, so all five show what 5e-4 shows: the formats "
        "are too close together for an order.",
    "sharpness-diverges":
        "E8M3 and E8M4 end 0.021 and 0.015 nats above E8M7, a distance that grows slowly (the right "
        "plot), so that a longer run might diverge: the paper's Llama 120M takes 16,000 steps to "
        "diverge in E8M3, eight times ours. Of our formats only E8M0 diverges.",
    "recovery-falls":
        "There is nothing to recover from: sharpness at the switch is within 3 % of bf16's at that step, "
        "and follows bf16's from there on. From E8M0 it does fall.",
    "spikes-more":
        "No run of either format has a spike, at either rate, and their mean losses are within 0.008 "
        "nats of each other. Five mantissa bits are enough here at ten times the learning rate, "
        "with gradients clipped to a norm of 1, for 400 steps.",
    "spikes-lower":
        "E8M1 has no spike either, but is less stable all the same: 6 of its 18 runs at the higher "
        "rate diverge, and none of bf16's. Their losses rise slowly, without a jump.",
    "seeds-diverge":
        "No seed diverges in any format, in 400 steps at ten times the learning rate. If one in "
        "ten diverged, as in the paper, 18 seeds would show it with a probability of 85 %. The "
        "mean losses of the formats are within 0.005 nats of each other, so the missing bits "
        "have almost no effect here. The paper's model is 3,800 times as large and its runs take 75 "
        "times as many steps. With fewer bits seeds do differ: under E8M1 6 of 18 diverge at this "
        "rate (see the section on spikes).",
    "landscape-lower":
        "The losses are computed under the same masks, and E8M0 truncates weights to powers of two, so "
        "the loss jumps between neighbouring points: at step 1,000 there are two minima. In f32 the "
        "same weights have one.",
}

#: Caveats about orderings that hold.
CAVEATS: dict[str, str] = {
    "exponents-inside":
        "It does so trivially: E7M7 trains with every clamp here.",
    "exponents-head":
        "It does so trivially: E7M7 trains with every clamp here. E4M7 says more: it "
        "learns more with the LM head unmasked, but does not train as E8M7 does.",
    "sharpness-lower":
        "E8M1's sharpness begins to rise at step 1,000, while its loss still falls, as E8M5's does in "
        "the paper. But E8M0's loss turns up after 230 steps, and at step 200 its sharpness has not "
        "risen yet: it does not foretell this divergence.",
    "recovery-lower":
        "It first rises from 0.106 to 0.258 in 100 steps, then falls to 0.068. The loss recovers as "
        "well, but ends 0.11 nats above bf16's.",
    "landscape-smooth":
        "But this run does not diverge, as the paper's does; E8M0 does.",
    "fp8-order":
        "The distances are only 0.003 and 0.004 nats, and validation losses do not show them; in the "
        "paper's plot they are obvious.",
}
