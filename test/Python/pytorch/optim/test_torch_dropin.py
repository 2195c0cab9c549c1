#===- test_torch_dropin.py - In place of torch.optim -----------*- Python -*-===#
# Part of the Tandem project, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#===----------------------------------------------------------------------===#
#
# This file tests optimizers with PyTorch's own test data: the inputs and errors of its optimizer
# database.
#
#===----------------------------------------------------------------------===#

import re
import warnings

import pytest

torch = pytest.importorskip("torch")

from torch.testing._internal.common_optimizers import optim_db

import tandem.torch as tt
from support.torch_bits import parameters, params_of

#: Our optimizers, with the options that make them equal to torch's.
OURS = {"AdamW": (tt.AdamW, {"decay": "before"}), "Adam": (tt.Adam, {}), "SGD": (tt.SGD, {}),
        "RMSprop": (tt.RMSprop, {}), "Adagrad": (tt.Adagrad, {}),
        "Adafactor": (tt.Adafactor, {}), "NAdam": (tt.NAdam, {}), "RAdam": (tt.RAdam, {}),
        "Adamax": (tt.Adamax, {}), "ASGD": (tt.ASGD, {}), "Rprop": (tt.Rprop, {}),
        "Adadelta": (tt.Adadelta, {})}
DATABASE = {info.optim_cls.__name__: info for info in optim_db
            if info.optim_cls.__name__ in OURS}
INPUTS = [(name, given.kwargs) for name, info in DATABASE.items()
          for given in info.optim_inputs_func(device="cpu")]
#: Options that the kernels do not support, with part of the reason.
REFUSED = {"amsgrad": "keeps no largest second moment", "dampening": "adds the whole gradient",
           "centered": "keeps no average of gradients",
           "initial_accumulator_value": "begins as zeros",
           "decoupled_weight_decay": "take tandem.torch.AdamW with decay='before'"}


def make(name, params, **options):
    cls, own = OURS[name]
    return cls(params, strategy="fp32", **own, **options)


def refused(options):
    return [option for option in REFUSED if options.get(option)]


def run(optimizer, params, steps=4):
    generator = torch.Generator().manual_seed(3)
    for _ in range(steps):
        for param in params:
            param.grad = torch.randn(param.shape, generator=generator)
        optimizer.step()


@pytest.mark.parametrize("name, options", [i for i in INPUTS if not refused(i[1])])
@pytest.mark.parametrize("how", [{}, {"foreach": False}, {"foreach": None, "fused": None},
                                 {"differentiable": False, "foreach": True}])
def test_inputs(name, options, how):
    """Steps match torch.optim, except for the last bits."""
    shapes, generator = [(3, 4), (5,)], torch.Generator().manual_seed(1)
    params = [torch.nn.Parameter(torch.randn(s, generator=generator)) for s in shapes]
    copies = [torch.nn.Parameter(p.detach().clone()) for p in params]
    run(DATABASE[name].optim_cls(params, **options), params)
    run(make(name, copies, **options, **how), copies)
    for param, copy in zip(params, copies):
        torch.testing.assert_close(copy, param, rtol=3e-6, atol=3e-7)


@pytest.mark.parametrize("name, options", [i for i in INPUTS if refused(i[1])])
def test_what_is_refused(name, options):
    reasons = "|".join([*(REFUSED[option] for option in refused(options)), "has none"])
    with pytest.raises(ValueError, match=f"{name} does not compute .*({reasons})"):
        make(name, [torch.nn.Parameter(torch.ones(3))], **options)


#: Messages of torch.optim, and ours for the same error.
MESSAGES = {
    "params argument given to the optimizer should be": None,
    ".*a parameter group with duplicate parameters.*": None,
    "some parameters appear in more than one parameter group": None,
    "Tensor lr must be 1-element": "lr.* must be a number",
    "all optimizer params should be with/without names": None,
    "all optimizer param groups should be with/without names": None,
    "Invalid beta parameter at index 0": "beta1.* is 1; it must be",
    "Invalid beta parameter at index 1": "beta2.* is 1; it must be",
    "Invalid weight_decay value": "weight_decay.* is -(1|0.5); it must be",
    "Invalid momentum_decay value": "momentum_decay.* is -0.2; it must be",
    "Invalid eta values": r"etas.* are \(1.0, 0.5\); the first must be",
    "Invalid momentum value": "momentum",
    "Invalid rho value": "rho.* is 1.1; it must be",
    "Invalid lr_decay value": "lr_decay.* is -0.5; it must be",
    "epsilon1 should be": "eps1.* is -1e-30; it must be",
    "Clipping threshold d should be": "'d'.* is 0; it must be at least 1",
    "beta2_decay should be": "'beta2_decay'.* is 0.8; it must be at most 0",
    "Adafactor does not support complex parameters": "complex64",
}
#: Errors for tensors, which are accepted here as numbers in any combination.
TAKEN = ("lr as a Tensor is not supported", "betas must be either both",
         r"betas\[0\] as a Tensor is not supported")
ERRORS = [(name, error) for name, info in DATABASE.items()
          for error in info.optim_error_inputs_func("cpu", torch.float32)]


@pytest.mark.parametrize("name, error", ERRORS, ids=lambda v: getattr(v, "error_regex", v))
def test_errors(name, error):
    given, text = error.optimizer_error_input, error.error_regex

    def build():
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            optimizer = make(name, given.params or parameters([(3, 4)], torch.float32),
                             **given.kwargs)
        for param in params_of(optimizer):
            param.grad = torch.ones_like(param)
        optimizer.step()

    if text.replace("\\", "").startswith(tuple(t.replace("\\", "") for t in TAKEN)):
        build()
        return
    (ours,) = [m for t, m in MESSAGES.items() if text.startswith(t)]
    with pytest.raises((ValueError, TypeError, RuntimeError, UserWarning),
                       match=ours or text):
        build()


@pytest.mark.parametrize("options, error, message", [
    ({"fused": "yes"}, TypeError, "fused must be True, False or None, got 'yes'"),
    ({"differentiable": True}, ValueError, "does not compute differentiable=True: no gradient "
                                           "flows through a compiled step"),
    ({"fuse": True}, TypeError, "has no hyperparameter 'fuse'"),
    ({"momentum": 0.9}, ValueError, "RMSprop does not compute momentum=0.9: the graph has "
                                    "none; write one")])
def test_options(options, error, message):
    with pytest.raises(error, match=re.escape(message)):
        make("RMSprop", [torch.nn.Parameter(torch.ones(3))], **options)


#===----------------------------------------------------------------------===#
# State dicts
#===----------------------------------------------------------------------===#


@pytest.mark.parametrize("name", [n for n in DATABASE if n != "SGD"])
def test_checkpoints_of_torch(name):
    """A run of torch.optim continues here."""
    params = parameters([(3, 4), (5,)], torch.float32)
    theirs = DATABASE[name].optim_cls(params, lr=1e-2)
    run(theirs, params)
    copies = [torch.nn.Parameter(p.detach().clone()) for p in params]
    ours = make(name, copies)
    ours.load_state_dict(theirs.state_dict())
    assert ours.param_groups[0]["lr"] == 1e-2
    for optimizer, own in ((theirs, params), (ours, copies)):
        run(optimizer, own, steps=2)
    for param, copy in zip(params, copies):
        torch.testing.assert_close(copy, param, rtol=3e-6, atol=3e-7)


def test_hooks_see_what_a_state_dict_has():
    optimizer, seen = make("Adam", parameters([(3, 4)], torch.float32)), []
    optimizer.register_state_dict_post_hook(lambda _, state: seen.append(set(state)))
    optimizer.register_state_dict_post_hook(lambda _, state: {**state, "more": 1})
    assert set(optimizer.state_dict()) == {"state", "param_groups", "tandem", "more"}
    assert seen == [{"state", "param_groups", "tandem"}]
