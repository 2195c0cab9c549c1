"""Other libraries' optimizers: bitsandbytes' states, and arguments of torch.optim."""
