#===- graph_text.py - Random graphs as MLIR --------------------*- Python -*-===#
# Part of the Tandem project, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#===----------------------------------------------------------------------===#
#
# This file writes random graphs and their strategies as MLIR: scalars in f64, tensors partly in
# linalg.generic and partly in arith.
#
#===----------------------------------------------------------------------===#
"""`write_graph(graph, seed)` and `write_strategy(graph)` return MLIR text."""

import random

from .kernels import storage_text

_MNEMONIC = {"add": "arith.addf", "sub": "arith.subf", "mul": "arith.mulf",
             "div": "arith.divf", "neg": "arith.negf", "sqrt": "math.sqrt",
             "abs": "math.absf", "max": "arith.maximumf", "min": "arith.minimumf"}
_TENSOR = "tensor<?xf32>"


def write_strategy(graph):
    policy = f"component, {graph.component}" if graph.component else "f32, f32"
    rules = [f"  tandem.assign {which} = {storage_text(storage)}"
             for which, storage in graph.rules]
    return "\n".join([f'tandem.strategy @"{graph.strategy}" compute(<{policy}>) {{',
                      *rules, "}", ""])


class _Writer:
    def __init__(self, graph, seed):
        self.graph, self.rng = graph, random.Random(seed)
        self.lines, self.next = [], 0
        self.wide, self.narrow, self.splats = {}, {}, {}
        self.tensors = {role.leaf: f"%{role.name}" for role in graph.roles}
        self.home = {}  # node -> index of the segment that computes it

    def line(self, text):
        self.lines.append("  " + text)

    def fresh(self):
        self.next += 1
        return f"%v{self.next}"

    # Scalars.

    def scalar(self, node):
        """Returns the f64 value of a uniform node."""
        if node not in self.wide:
            self.wide[node] = self.define_scalar(node)
        return self.wide[node]

    def define_scalar(self, node):
        if node.op == "hyper":
            return f"%{node.value}"
        operands = [] if node.op == "power" else [self.scalar(a) for a in node.args]
        name = self.fresh()
        if node.op == "literal":
            self.line(f"{name} = arith.constant {node.value!r} : f64")
        elif node.op == "power":
            base = self.scalar(node.args[0])
            self.line(f"{name} = math.fpowi {base}, %{node.args[1].value} : f64, i64")
        else:
            self.line(f"{name} = {_MNEMONIC[node.op]} {', '.join(operands)} : f64")
        return name

    def real(self, node):
        """Returns the f32 value of a node that all elements share."""
        if node not in self.narrow:
            wide, name = self.scalar(node), self.fresh()
            self.line(f"{name} = arith.truncf {wide} : f64 to f32")
            self.narrow[node] = name
        return self.narrow[node]

    def tensor(self, node):
        """Returns a node as a tensor."""
        if not node.is_shared:
            return self.tensors[node]
        if node not in self.splats:
            real, name = self.real(node), self.fresh()
            self.line(f"{name} = tensor.splat {real}[%extent] : {_TENSOR}")
            self.splats[node] = name
        return self.splats[node]

    # Segments.

    def operation(self, node, operands, type, indent=""):
        """Writes one operation and returns its result."""
        name = self.fresh()
        if node.op != "select":
            self.line(f"{indent}{name} = {_MNEMONIC[node.op]} {', '.join(operands)} "
                      f": {type}")
            return name
        a, b, x, y = operands
        flag = type.replace("f32", "i1")
        self.line(f"{indent}{name}c = arith.cmpf ogt, {a}, {b} : {type}")
        select = f"{flag}, {type}" if type != "f32" else type
        self.line(f"{indent}{name} = arith.select {name}c, {x}, {y} : {select}")
        return name

    def write_shared(self, node):
        """Writes a reduction, the number of elements, or arithmetic on these."""
        name = self.fresh()
        if node.op == "sum":
            summand = self.tensor(node.args[0])
            scope = ' {tandem.scope = "model"}' if node.value == "model" else ""
            self.line(f"{name}t = linalg.reduce {{ arith.addf }} ins({summand} : {_TENSOR})"
                      f" outs(%nothing : tensor<f32>) dimensions = [0]{scope}")
            self.line(f"{name} = tensor.extract {name}t[] : tensor<f32>")
        elif node.op == "size":
            self.line(f"{name}i = arith.index_cast %extent : index to i64")
            self.line(f"{name} = arith.sitofp {name}i : i64 to f32")
        else:
            name = self.operation(node, [self.real(a) for a in node.args], "f32")
        self.narrow[node] = name

    def write_arith(self, segment):
        for node in segment:
            operands = [self.tensor(a) for a in node.args]
            self.tensors[node] = self.operation(node, operands, _TENSOR)

    def inputs_of(self, segment):
        inside, inputs = set(segment), []
        for node in segment:
            for a in node.args:
                if not a.is_shared and a not in inside and a not in inputs:
                    inputs.append(a)
        return inputs

    def outputs_of(self, segment, index):
        """Returns the values that later segments or the results read; at least one."""
        used = {a for node in self.graph.nodes if self.home[node] != index
                for a in node.args} | {role.result for role in self.graph.updated}
        return [node for node in segment if node in used] or [segment[-1]]

    def write_generic(self, segment, index):
        inputs, outputs = self.inputs_of(segment), self.outputs_of(segment, index)
        splat = [a for node in segment for a in node.args
                 if a.is_shared and self.rng.random() < 0.2][:1]
        for node in segment:
            for a in node.args:
                if a.is_shared:
                    self.tensor(a) if a in splat else self.real(a)
        # Some inputs are read as the initial value of an output.
        initial = [n for n in inputs if n.is_leaf and self.rng.random() < 0.5]
        initial = initial[:len(outputs)]
        inputs = [n for n in inputs if n not in initial] + splat
        empty = [self.fresh() for _ in outputs[len(initial):]]
        for name in empty:
            self.line(f"{name} = tensor.empty(%extent) : {_TENSOR}")
        outs = [self.tensor(n) for n in initial] + empty
        arguments = {n: f"%a{self.next}_{i}" for i, n in enumerate(inputs + initial)}
        results = [self.fresh() for _ in outputs]
        self.open_generic([self.tensor(n) for n in inputs], outs, results)
        unread = [f"%o{self.next}_{i}" for i in range(len(empty))]
        header = ", ".join(f"{a}: f32" for a in [*arguments.values(), *unread])
        self.line(f"^bb0({header}):")
        inner = dict(arguments)
        for node in segment:
            operands = [inner[a] if a in inner else self.real(a) for a in node.args]
            inner[node] = self.operation(node, operands, "f32", "  ")
        self.line(f"  linalg.yield {', '.join(inner[n] for n in outputs)} : "
                  + ", ".join(["f32"] * len(outputs)))
        self.line(f"}} -> ({', '.join([_TENSOR] * len(outputs))})")
        self.tensors |= dict(zip(outputs, results))

    def open_generic(self, ins, outs, results):
        maps = ", ".join(["affine_map<(i) -> (i)>"] * (len(ins) + len(outs)))

        def group(word, names):
            types = ", ".join([_TENSOR] * len(names))
            return f" {word}({', '.join(names)} : {types})" if names else ""

        self.line(f"{', '.join(results)} = linalg.generic {{indexing_maps = [{maps}], "
                  f"iterator_types = [\"parallel\"]}}{group('ins', ins)}"
                  f"{group('outs', outs)} {{")

    def segments(self):
        """Returns runs of tensor operations; each shared value has a separate segment."""
        result, room = [], 0
        for node in self.graph.nodes:
            if room == 0 or node.is_shared or result[-1][0].is_shared:
                result.append([])
                room = self.rng.randint(1, 7)
            result[-1].append(node)
            room -= 1
        return result

    # The function.

    def arguments(self):
        def argument(name, type, role):
            return f"    %{name}: {type} {{tandem.role = #tandem.role<{role}>}}"

        lines = []
        for role in self.graph.roles:
            moment = f", moment = {role.moment}" if role.kind == "state" else ""
            lines.append(argument(role.name, _TENSOR,
                                  f'{role.kind} "{role.name}"{moment}'))
        for hyper in self.graph.hypers:
            default = "" if hyper.default is None else f", default = {hyper.default!r}"
            lines.append(argument(hyper.name, "f64", f'hyper "{hyper.name}", '
                                  f"domain = {hyper.domain}{default}"))
        if self.graph.step:
            lines.append(argument(self.graph.step, "i64", f'step "{self.graph.step}"'))
        return ",\n".join(lines)

    def write(self):
        first = self.graph.updated[0].name
        self.line("%zero = arith.constant 0 : index")
        self.line(f"%extent = tensor.dim %{first}, %zero : {_TENSOR}")
        if self.graph.reduces:
            self.line("%nothing = arith.constant dense<0.0> : tensor<f32>")
        segments = self.segments()
        self.home = {n: i for i, segment in enumerate(segments) for n in segment}
        for index, segment in enumerate(segments):
            if segment[0].is_shared:
                self.write_shared(segment[0])
            elif self.rng.random() < 0.5:
                self.write_arith(segment)
            else:
                self.write_generic(segment, index)
        results = [self.tensor(role.result) for role in self.graph.updated]
        types = ", ".join([_TENSOR] * len(results))
        self.line(f"return {', '.join(results)} : {types}")
        body = "\n".join(self.lines)
        return (f"func.func @{self.graph.name}(\n{self.arguments()})\n"
                f"    -> ({types}) {{\n{body}\n}}\n")


def write_graph(graph, seed):
    """Returns the graph as MLIR; its spelling also depends on the seed."""
    return _Writer(graph, seed).write()
