# Part of the Tandem project, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Trains a small Llama with Accelerate, in one run and again from its checkpoint."""

import tempfile

import accelerate
import tandem.torch
import torch
import transformers
from task import CONFIG, EPOCHS, STEPS, make_data


def train(folder, resume=False, max_norm=1.0):
    """Trains, and returns the loss of each batch, the model and the optimizer."""
    accelerator = accelerate.Accelerator(cpu=True, gradient_accumulation_steps=2)
    torch.manual_seed(0)
    model, losses = transformers.LlamaForCausalLM(CONFIG).bfloat16(), []
    ours = tandem.torch.AdamW(model.parameters(), lr=1e-2, strategy="flash-f16")
    schedule = torch.optim.lr_scheduler.CosineAnnealingLR(ours, STEPS)
    loader = torch.utils.data.DataLoader(make_data(), batch_size=8, shuffle=True)
    model, optimizer, loader, schedule = accelerator.prepare(model, ours, loader, schedule)
    if resume:
        accelerator.load_state(folder)
    for epoch in range(1 if resume else 0, EPOCHS):
        for batch in loader:
            with accelerator.accumulate(model):
                loss = model(**batch).loss
                accelerator.backward(loss)
                if accelerator.sync_gradients:  # the last batch before a step
                    accelerator.clip_grad_norm_(model.parameters(), max_norm)
                optimizer.step()
                schedule.step()
                optimizer.zero_grad()
            losses.append(loss.item())
        if epoch == 0:
            accelerator.save_state(folder)
    return losses, model, ours


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as folder:
        losses, model, _ = train(folder)
        again, resumed, _ = train(folder, resume=True)
    print("losses:", *(f"{loss:.3f}" for loss in losses))
    assert again == losses[-len(again):]
    assert all(map(torch.equal, model.parameters(), resumed.parameters()))
    print("resumed from the first epoch: the same bits")
