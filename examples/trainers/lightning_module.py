# Part of the Tandem project, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Trains a small Llama with Lightning, in one run and again from its checkpoint."""

import tempfile

import pytorch_lightning as pl
import tandem.torch
import torch
import transformers
from task import CONFIG, EPOCHS, STEPS, make_data


class Module(pl.LightningModule):
    def __init__(self):
        super().__init__()
        self.model, self.losses = transformers.LlamaForCausalLM(CONFIG), []

    def training_step(self, batch):
        loss = self.model(**batch).loss
        self.losses.append(loss.item())
        return loss

    def configure_optimizers(self):
        optimizer = tandem.torch.AdamW(self.parameters(), lr=1e-2, strategy="flash-f16")
        schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, STEPS)
        return [optimizer], [{"scheduler": schedule, "interval": "step"}]


def train(folder, resume=None, max_norm=1.0):
    """Trains, and returns the loss of each batch, the model and the optimizer."""
    pl.seed_everything(0)
    checkpoint = pl.callbacks.ModelCheckpoint(folder, "{epoch}", save_top_k=-1)
    trainer = pl.Trainer(
        accelerator="cpu", precision="bf16-true", max_epochs=EPOCHS, accumulate_grad_batches=2,
        gradient_clip_val=max_norm, callbacks=[checkpoint], logger=False,
        enable_progress_bar=False, enable_model_summary=False)
    module = Module()
    trainer.fit(module, torch.utils.data.DataLoader(make_data(), 8), ckpt_path=resume)
    return module.losses, module, trainer.optimizers[0]


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as folder:
        losses, model, _ = train(folder)
        again, resumed, _ = train(folder, resume=f"{folder}/epoch=0.ckpt")
    print("losses:", *(f"{loss:.3f}" for loss in losses))
    assert again == losses[-len(again):]
    assert all(map(torch.equal, model.parameters(), resumed.parameters()))
    print("resumed from the first epoch: the same bits")
