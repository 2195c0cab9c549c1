#===- paper.py - Numbers of "To FP8 and Back Again" ------------*- Python -*-===#
# Part of the Tandem project, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#===----------------------------------------------------------------------===#
#
# This file lists the numbers of the paper, as printed, and the sizes of its runs.
#
#===----------------------------------------------------------------------===#
"""Tables 1 to 3, and the paper's statements about its figures."""

#: Table 1: sharpness in percent after 1,000 to 5,000 steps of Llama 7B, epsilon 5e-4.
TABLE_1 = {
    "E8M3": (0.209, 0.488, 1.306, 2.006, 1.927),
    "E8M4": (0.205, 0.363, 0.734, 1.125, 1.439),
    "E8M5": (0.191, 0.265, 0.352, 0.475, 0.628),
    "E8M6": (0.191, 0.221, 0.229, 0.237, 0.248),
    "E8M7": (0.192, 0.200, 0.200, 0.207, 0.215),
}
TABLE_1_STEPS = (1000, 2000, 3000, 4000, 5000)

#: Table 2: sharpness after 5,000 steps of other checkpoints, by epsilon. None marks numbers that
#: are not legible in the copy of the paper at hand.
TABLE_2 = {
    "5e-05": {"E8M3": 0.17, "E8M4": 0.17, "E8M5": 0.07, "E8M6": 0.03, "E8M7": 0.02},
    "0.0001": {"E8M3": 0.33, "E8M4": 0.34, "E8M5": 0.14, "E8M6": 0.05, "E8M7": 0.04},
    "0.0005": {"E8M3": 1.49, "E8M4": 1.54, "E8M5": 0.64, "E8M6": 0.25, "E8M7": 0.19},
    "0.001": {"E8M3": 2.81, "E8M4": None, "E8M5": 1.21, "E8M6": 0.48, "E8M7": None},
    "0.005": {"E8M3": None, "E8M4": None, "E8M5": 5.28, "E8M6": None, "E8M7": 1.73},
}

#: Table 3: sharpness by thousands of steps, after a switch to bf16 at step 6,000.
TABLE_3 = {7: 1.35, 10: 0.90, 15: 0.60, 20: 0.48, 25: 0.37, 30: 0.35, 35: 0.29, 40: 0.27,
           44: 0.24}

#: Results of the paper that are in no table, and those that users report.
SAYS = {
    "spikes": "The paper has plots of 18 runs for each format and rate, without a count. E8M5 spikes "
    "more often, above all at the higher rate.",
    "seeds": "In the paper 18 of 188 runs diverge in bf16, and 0 of 70 in TF32.",
    "landscape": "The paper has two plots of the validation loss, which look smooth although the run is "
    "diverging.",
    "fp8-lm-head": "The paper has plots of smoothed losses, without numbers. FP8 ends above bf16 even "
    "after 120,000 steps, and far above it if the LM head is FP8 too.",
    "long": "Users report that bf16 AdamW stops improving late in a run where f32 goes on, in one "
    "report (AReaL, issue 1292) at three times the loss.",
}

#: The runs of each study: model, steps, seeds.
RUNS = {
    "exponents": ("TinyLlama 120M", "not stated", "not stated"),
    "sharpness": ("Llama 120M (figure 7), Llama 7B (tables)",
                  "16,000 to 100,000; 5,000", "1"),
    "divergence": ("Llama 120M", "16,000 to 100,000", "1"),
    "recovery": ("Llama 7B", "6,000 in E8M3, then 38,000 in bf16", "1"),
    "spikes": ("Llama 120M", "not stated", "18 of each format and rate"),
    "seeds": ("GPT-2 124M", "30,000", "188 in bf16, 70 in TF32"),
    "landscape": ("Llama 120M", "5,000 and 10,000", "1"),
    "fp8-lm-head": ("GPT-2 124M", "120,000", "1"),
    "coat": ("OLMo-1B", "not stated, of 4 million tokens", "1"),
    "collage": ("GPT-125M (table 6), BERT-base (figures)", "not stated; 28,125", "1"),
    "fp8-lm-long": ("GPT-7B to GPT-175B", "not stated", "1"),
    "fp8-lm": ("GPT-125M (table 6), GPT-7B to GPT-175B (figure 4)", "not stated", "1"),
}
