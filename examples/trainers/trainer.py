# Part of the Tandem project, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Trains a small Llama with Hugging Face's Trainer, in one run and again from its checkpoint."""

import tempfile

import tandem.torch
import torch
import transformers
from task import CONFIG, EPOCHS, STEPS, make_data


def train(folder, resume=None, max_norm=1.0):
    """Trains, and returns the loss of each step, the model and the optimizer."""
    torch.manual_seed(0)
    model = transformers.LlamaForCausalLM(CONFIG).bfloat16()
    arguments = transformers.TrainingArguments(
        folder, num_train_epochs=EPOCHS, per_device_train_batch_size=8,
        gradient_accumulation_steps=2, max_grad_norm=max_norm, lr_scheduler_type="cosine",
        warmup_steps=2, weight_decay=0.1, save_strategy="epoch", logging_steps=1,
        report_to="none", disable_tqdm=True, use_cpu=True)
    # TrainingArguments.learning_rate is for the Trainer's own optimizers.
    ours = (tandem.torch.AdamW, {"lr": 1e-2, "strategy": "flash-f16"})
    trainer = transformers.Trainer(
        model, arguments, train_dataset=make_data(), optimizer_cls_and_kwargs=ours)
    trainer.train(resume_from_checkpoint=resume)
    losses = [entry["loss"] for entry in trainer.state.log_history if "loss" in entry]
    return losses, model, trainer.optimizer.optimizer  # The Trainer wraps it in Accelerate's.


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as folder:
        losses, model, _ = train(folder)
        again, resumed, _ = train(folder, resume=f"{folder}/checkpoint-{STEPS // EPOCHS}")
    print("losses:", *(f"{loss:.3f}" for loss in losses))
    assert again == losses
    assert all(map(torch.equal, model.parameters(), resumed.parameters()))
    print("resumed from the first epoch: the same bits")
