#===- reasons.py - Why results do not reproduce here -----------*- Python -*-===#
# Part of the Tandem project, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#===----------------------------------------------------------------------===#
#
# This file lists the reasons why results of the paper do not reproduce at toy size, and remarks on
# those that do.
#
#===----------------------------------------------------------------------===#
"""Reasons by the names of the checks in checks.py, which papers.sh --check requires."""

REASONS: dict[str, str] = {
    "exponents-fail":
        "Centred, E7M7 gives the same losses as E8M7, digit for digit: after training, the "
        "magnitudes of all factors, results and gradients of linear layers lie far within what E7 "
        "holds (the last two columns of the table), so that the masks have nothing to clamp. "
        "Centred, E5M7, E4M7 and E3M7 do fail here.",
    "exponents-outside":
        "No magnitude reaches the largest number of a centred E7. With fewer bits it is the other "
        "end that matters: E4M7 fails clamped inside and trains clamped outside. Clamped inside, "
        "it raises all magnitudes below 2^-6 to 2^-6, and the gradient of each logit is at most "
        "1/256, since the loss is a mean over 256 characters; its largest number, 255, is above "
        "all magnitudes of a run that trains.",
    "sharpness-loss":
        "E8M3 ends far above E8M5, but E8M5's distance from E8M7 is within the error: its sharpness "
        "is higher and its loss is not, as in the paper, where sharpness rises before the loss.",
    "divergence-order":
        "No run diverges in 60,000 steps: E8M3 ends at a higher loss and no seed's loss rises for "
        "good. The paper's model has 3,600 times as many parameters.",
    "rates-sensitivity":
        "Both formats lose the same from the best rate to the highest ones, within the error: from "
        "3e-2 on the loss is lost to the rate, in f32 too, and at 1e-2 E8M3 ends a little lower.",
    "rates-logits":
        "Attention logits grow with the rate in all formats, from 25 at a rate of 3e-3 to 1e5 at "
        "1e-1 and more than 1e7 at 1, and f32's grow most. Three mantissa bits do not drive them here.",
    "rates-spikes":
        "Spikes occur at a rate of 1 only, in all formats: 2 under E8M3, 7 under E8M7 and 6 in "
        "f32, over three seeds.",
    "size-loss":
        "Losses at the constant rate of 1e-2 differ by more from seed to seed than from format to "
        "format: E8M7 ends at 1.68, 1.79 and 1.78, E8M3 at 1.72, 1.76 and 1.76. Sharpness parts the "
        "formats, by six times its error.",
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
        "mean losses of the formats are within 0.006 nats of each other, so the missing bits "
        "have almost no effect here. The paper's model is 3,800 times as large and its runs take 75 "
        "times as many steps. With fewer bits seeds do differ: under E8M1 6 of 18 diverge at this "
        "rate (see the section on spikes).",
    "fp8-order":
        "FP8 in the LM head costs a little, as in the paper, but that FP8 without it ends above bf16 "
        "is within the error: the distances are thousandths of a nat. In the paper's plot they are "
        "obvious.",
    "remedies-raised":
        "All three seeds end lower, but by how much depends on when they were raised: by 0.010 nats "
        "after step 16,000, 0.023 after 14,000 and 0.105 after 2,000, so that two standard errors "
        "are more than the mean. Early in a run sharpness is high under both formats, which was "
        "enough for the third seed.",
    "published-coat":
        "The loss is the same within the error. `coat` has dither and f32 scales so that moments "
        "[follow](Following.md) their averages, which the loss of a run of this length does not show.",
    "published-coat-nearest":
        "The difference is within the error, and has the other sign.",
    "published-coat-range":
        "It ends lower, so that the range of `coat`, which was chosen by the [errors of stored "
        "moments](Quality.md#moments-in-8-bits), is not the better one in this run.",
    "published-coat-scales":
        "It ends slightly lower, so that f32 scales do not lower the loss of this run.",
    "published-fp8-lm-moments":
        "The difference is within the error. Most of what FP8-LM as published loses comes from its f16 "
        "weight, which is rounded to nearest.",
    "published-adam8bit-moments":
        "The difference is within the error, and has the other sign. All that 8-bit Adam as "
        "published loses comes from its bf16 weights, which are rounded to nearest.",
    "landscape-lower":
        "The losses are computed under the same masks, and E8M0 truncates weights to powers of two, so "
        "the loss jumps between neighbouring points: at step 1,000 there are several minima. In f32 the "
        "same weights have one.",
}

#: Remarks on results that hold, or hold trivially.
CAVEATS: dict[str, str] = {
    "exponents-kept-fail":
        "It learns, but stays far above E8M7; it does not diverge. The paper does not state its "
        "bias, and this reading was chosen because the other does not fit.",
    "exponents-kept-inside":
        "With f32's bias E7M7 is as fine near zero as f32, so that there is nothing to clamp: the "
        "losses are E8M7's, digit for digit.",
    "exponents-kept-outside":
        "The losses are those with both clamps, digit for digit, since there is nothing to clamp "
        "inside.",
    "exponents-kept-head":
        "So most of what E7M7 loses are numbers of the LM head with magnitudes of 2 and more.",
    "exponents-inside":
        "Centred, E7M7 trains with every clamp here.",
    "exponents-head":
        "Centred, E7M7 trains with every clamp here. E4M7 says more: it learns more with the LM "
        "head unmasked, but does not train as E8M7 does.",
    "sharpness-ends":
        "Under E8M3 sharpness falls until step 4,000 to 6,000 and rises from then on, by 34 percent "
        "on average, while the loss still falls a little; under E8M7 it falls throughout. The paper's "
        "distance is larger: 1.9 against 0.2 percent.",
    "sharpness-all":
        "The margin between E8M6 and E8M7 is narrow.",
    "remedies-blocks":
        "All layers except the LM head then have E8M7, which recovers most of the distance.",
    "sharpness-cost":
        "The distance grows throughout: 0.016 nats after 2,000 steps, 0.054 after 8,000, and 0.109 "
        "at the end.",
    "recovery-falls":
        "Without the switch it goes on rising. As in the paper the recovery is slow: after 8,000 "
        "steps sharpness is still above that of E8M7 at the switch.",
    "recovery-loss":
        "The margin is narrow: the loss of one of the three seeds is the same either way.",
    "spikes-none-diverge":
        "No run of either format has a spike, so that none came near divergence. Under E8M1 6 of "
        "18 diverge at the higher rate.",
    "sharpness-epsilon":
        "Sharpness is nearly proportional to epsilon, so all five show what 5e-4 shows.",
    "landscape-smooth":
        "But this run does not diverge, as the paper's does; E8M0 does.",
}
