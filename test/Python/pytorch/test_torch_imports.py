#===- test_torch_imports.py - What importing tandem.torch loads *- Python -*-===#
# Part of the Tandem project, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#===----------------------------------------------------------------------===#
#
# This file tests in new processes that heavy modules are imported when they are used, and that
# torch.compile leaves layers out of its graphs that were imported before it.
#
#===----------------------------------------------------------------------===#

import json
import subprocess
import sys
import textwrap

import pytest

#: Modules that are slow to import, and that PyTorch's own import does without.
HEAVY = ["torch._dynamo", "torch._inductor", "torch.distributed.checkpoint",
         "torch.distributed.fsdp", "torch.distributed.optim", "torch.distributed.tensor", "sympy",
         "scipy", "matplotlib", "jax"]


def run(program: str) -> dict:
    """Returns the JSON that a program prints, run in a new process after its imports."""
    text = "import json, sys, time\n" + textwrap.dedent(program)
    result = subprocess.run([sys.executable, "-c", text], capture_output=True, text=True)
    assert result.returncode == 0, result.stderr
    return json.loads(result.stdout.splitlines()[-1])


MEASURED = """
    def imported(name):
        before, start = set(sys.modules), time.process_time()
        __import__(name)
        return {"seconds": time.process_time() - start, "new": sorted(set(sys.modules) - before)}

    first, second = imported("%s"), imported("%s")
    print(json.dumps([first, second]))
"""


def foreign(modules: list[str]) -> list[str]:
    return [name for name in modules if name.partition(".")[0] != "tandem"]


def test_beside_pytorch():
    """About 110 modules of this package are imported, and none of others. They take about an eighth
    of the time of PyTorch's import, and twice as much where Python caches no bytecode."""
    torch, ours = run(MEASURED % ("torch", "tandem.torch"))
    assert foreign(ours["new"]) == []
    assert len(ours["new"]) < 150
    assert ours["seconds"] < 0.5 * torch["seconds"], (ours["seconds"], torch["seconds"])


def test_alone():
    """Only modules of Python's own are imported with tandem."""
    (_, ours) = run(MEASURED % ("json", "tandem"))
    assert {name.partition(".")[0] for name in foreign(ours["new"])} <= sys.stdlib_module_names
    assert len(ours["new"]) < 120


def test_beside_jax():
    pytest.importorskip("jax")
    jax, ours = run(MEASURED % ("jax", "tandem.jax"))
    packages = {name.partition(".")[0] for name in ours["new"]} - sys.stdlib_module_names
    assert packages <= {"tandem", "jax"}  # jax.extend.core has the class of primitives
    assert len(ours["new"]) < 100
    assert ours["seconds"] < 0.5 * jax["seconds"], (ours["seconds"], jax["seconds"])


def test_training_without_a_compiler():
    """Layers, optimizers, schedules and state dicts import none of these, as PyTorch's own
    optimizers do."""
    loaded = run(f"""
        import torch
        import tandem.torch
        from tandem.torch import nn

        model = torch.nn.Sequential(torch.nn.Linear(64, 64), torch.nn.SiLU(), torch.nn.RMSNorm(64))
        model = model.bfloat16()
        model[2].float()
        tandem.torch.compress_activations(model, recipe="coat")
        options = dict(strategy="flash-f16", min_8bit_size=0)
        optimizer = tandem.torch.AdamW(model.parameters(), **options)
        schedule = torch.optim.lr_scheduler.StepLR(optimizer, 1)
        for _ in range(2):
            y = model[:2](torch.ones(8, 64, dtype=torch.bfloat16)).float()
            loss = nn.cross_entropy(model[2](y), torch.zeros(8, dtype=torch.long))
            loss.backward()
            optimizer.step()
            optimizer.zero_grad()
            schedule.step()
        optimizer.load_state_dict(optimizer.state_dict())
        optimizer.add_param_group({{"params": [torch.nn.Parameter(torch.ones(4))]}})
        tandem.torch.AdamW(model.parameters(), gradient_release=True, **options)
        model[2](y.detach()).sum().backward()
        masked = torch.nn.Sequential(torch.nn.Linear(64, 64))
        tandem.torch.emulate(masked, "E4M3")
        masked(y.detach()).sum().backward()
        print(json.dumps([name for name in {HEAVY} if name in sys.modules]))
    """)
    assert loaded == []


#: Compiles functions with parts that graphs leave out: a function, a part of one, and a method.
APART = """
    import torch
    %s
    import tandem.torch
    from tandem.torch import nn

    torch.manual_seed(0)
    target, state, masked = torch.zeros(8, dtype=torch.long), {}, torch.nn.Linear(64, 64)
    model = torch.nn.Sequential(masked)
    tandem.torch.emulate(model, "E4M3")

    def with_function(x):
        return nn.cross_entropy(torch.tanh(x * 2), target, recipe="coat") + 1

    def with_part(x):
        y = nn.linear(x * 2, masked.weight, recipe="te-delayed", state=state)
        return torch.tanh(y) + 1

    def with_method(x):
        return torch.tanh(model(x * 2)) + 1

    def backend(module, inputs):
        graphs.append([getattr(node.target, "__name__", str(node.target))
                       for node in module.graph.nodes if node.op.startswith("call")])
        return module.forward

    calls, graphs = (with_function, with_part, with_method), []
    xs = [torch.linspace(-1, step + 1, 512).view(8, 64) for step in range(3)]
    want = [call(x) for call in calls for x in xs]
    is_late = "torch._dynamo" not in sys.modules
    state.clear()
    got = [call(x) for call in [torch.compile(call, backend=backend) for call in calls]
           for x in xs]
    compiled = [each.co_name for each in torch._dynamo.utils.get_compilation_metrics()]
    print(json.dumps([is_late, all(map(torch.equal, got, want)), graphs, compiled]))
"""


def test_parts_stay_out_of_graphs():
    """They do so in the same way whether torch._dynamo is imported before them or later."""
    late, early = run(APART % ""), run(APART % "import torch._dynamo")
    assert [late[:2], early[:2]] == [[True, True], [False, True]]
    assert late[2:] == early[2:]
    assert set(sum(late[2], [])) == {"add", "mul", "tanh"}
