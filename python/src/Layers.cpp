//===- Layers.cpp - Layers in Python --------------------------------------===//
//
// Part of the Tandem Project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// This file implements the layers of the Python extension.
//
//===----------------------------------------------------------------------===//

#include "Layers.h"
#include "Compiler.h"
#include "Description.h"
#include "Errors.h"
#include <nanobind/stl/pair.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

namespace nb = nanobind;

namespace {
/// Inputs that are already stored, as (name, storage).
using Stored = std::vector<std::pair<std::string, std::string>>;

/// A parsed layer.
class Layer {
public:
  Layer(const std::string &text, const std::string &recipe,
        const std::vector<std::string> &path, const std::string &elements,
        const std::string &columns, const Stored &stored, bool keepsOutputs,
        const std::string &target);
  ~Layer() {
    nb::gil_scoped_release release;
    compiler().tandemLayerDestroy(layer);
  }
  Layer(const Layer &) = delete;
  Layer &operator=(const Layer &) = delete;

  const char *getName() const {
    return compiler().tandemLayerGetFunction(layer, TandemLayerForward);
  }
  bool storesByFlow() const {
    return compiler().tandemLayerStoresByFlow(layer);
  }

  /// Compiles the kernel of a pass; returns null on failure.
  TandemKernel *compile(TandemLayerPass pass, const Stored &stored,
                        bool hasPlainOutputs) const;

private:
  TandemLayer *layer;
};
} // namespace

static std::vector<TandemStoredInput> getInputs(const Stored &stored) {
  std::vector<TandemStoredInput> inputs;
  for (const auto &[name, storage] : stored)
    inputs.push_back({name.c_str(), storage.c_str()});
  return inputs;
}

static std::vector<const char *>
getTexts(const std::vector<std::string> &strings) {
  std::vector<const char *> texts;
  for (const std::string &string : strings)
    texts.push_back(string.c_str());
  return texts;
}

Layer::Layer(const std::string &text, const std::string &recipe,
             const std::vector<std::string> &path, const std::string &elements,
             const std::string &columns, const Stored &stored,
             bool keepsOutputs, const std::string &target) {
  std::vector<const char *> directories = getTexts(path);
  std::vector<TandemStoredInput> inputs = getInputs(stored);
  TandemLayerOptions options = {};
  options.layer = text.c_str();
  options.recipe = recipe.c_str();
  options.path = directories.data();
  options.pathLength = directories.size();
  options.elements = elements.c_str();
  options.columns = columns.c_str();
  options.stored = inputs.data();
  options.numStored = inputs.size();
  options.keepsOutputs = keepsOutputs;
  options.target = target.c_str();
  {
    nb::gil_scoped_release release;
    layer = compiler().tandemLayerCreate(&options);
  }
  orThrow(layer);
}

TandemKernel *Layer::compile(TandemLayerPass pass, const Stored &stored,
                             bool hasPlainOutputs) const {
  std::vector<TandemStoredInput> inputs = getInputs(stored);
  TandemLayerPassOptions options = {pass, inputs.data(),
                                    intptr_t(inputs.size()), hasPlainOutputs};
  nb::gil_scoped_release release;
  return compiler().tandemLayerCompile(layer, &options);
}

/// Raises the compiler's error unless the recipe exists.
static void checkRecipe(const std::string &recipe,
                        const std::vector<std::string> &path) {
  std::vector<const char *> directories = getTexts(path);
  bool isFound;
  {
    nb::gil_scoped_release release;
    isFound = compiler().tandemCheckRecipe(recipe.c_str(), directories.data(),
                                           directories.size());
  }
  orThrow(isFound);
}

void bindLayers(nb::module_ &m, MakeKernel makeKernel) {
  nb::enum_<TandemLayerPass> type(m, "LayerPass", "The functions of a layer.");
  TANDEM_LAYER_PASSES(TANDEM_ADD_VALUE)
  nb::class_<Layer>(m, "Layer")
      .def(nb::init<const std::string &, const std::string &,
                    const std::vector<std::string> &, const std::string &,
                    const std::string &, const Stored &, bool,
                    const std::string &>())
      .def_prop_ro("name", &Layer::getName)
      .def_prop_ro("stores_by_flow", &Layer::storesByFlow)
      .def("compile", [makeKernel](const Layer &layer, TandemLayerPass pass,
                                   const Stored &stored, bool hasPlainOutputs) {
        return makeKernel(layer.compile(pass, stored, hasPlainOutputs));
      });
  m.def("check_recipe", &checkRecipe);
}
