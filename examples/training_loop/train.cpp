//===- train.cpp - A training loop in C++, without Python -----------------===//
//
// Part of the Tandem Project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// This file implements a program that trains a network of two layers, whose
// gradients it computes by hand, with the optimizer of a package. It links only
// Tandem's runtime. train.py does the same in NumPy, with the same bits.
//
// The network is y = w2 relu(w1 x + b1) + b2. It learns the product of the
// first two of eight inputs.
//
//===----------------------------------------------------------------------===//

#include "tandem-runtime/tandem_package.h"
#include <array>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <string>
#include <utility>
#include <vector>

namespace {

constexpr int inputs = 8, hidden = 64, batch = 64;
enum Parameter { W1, B1, W2, B2, numParameters };
constexpr std::array<int, numParameters> sizes = {hidden * inputs, hidden,
                                                  hidden, 1};

void check(tdm_status status) {
  if (status == TDM_OK)
    return;
  std::fprintf(stderr, "train: %s\n", tdm_last_error());
  std::exit(1);
}

[[noreturn]] void fail(const std::string &message) {
  std::fprintf(stderr, "train: %s\n", message.c_str());
  std::exit(1);
}

/// Rounds a number to bf16, its upper half, to nearest, ties to even.
uint16_t toBFloat16(float value) {
  uint32_t bits;
  std::memcpy(&bits, &value, sizeof(bits));
  return static_cast<uint16_t>((bits + 0x7FFF + ((bits >> 16) & 1)) >> 16);
}

float fromBFloat16(uint16_t half) {
  uint32_t bits = uint32_t(half) << 16;
  float value;
  std::memcpy(&value, &bits, sizeof(value));
  return value;
}

/// Generates uniform numbers in [-1, 1) that are exact in f32.
class Random {
public:
  explicit Random(uint32_t seed) : state(seed) {}

  float next() {
    state = state * 1664525u + 1013904223u;
    return float(int32_t(state) >> 8) / float(1 << 23);
  }

private:
  uint32_t state;
};

/// The optimizer of a package, with its arrays for each parameter.
class Optimizer {
public:
  Optimizer(const char *package, const char *target) {
    check(tdm_package_open(package, &file));
    check(tdm_package_load(file, nullptr, nullptr, target, &kernel));
    info.struct_size = sizeof(info);
    check(tdm_package_kernel(file, 0, &info));
    weight = find(TDM_ROLE_PARAM);
    gradient = find(TDM_ROLE_GRAD);
    for (int parameter = 0; parameter < numParameters; ++parameter)
      allocate(parameter);
    bind();
  }

  Optimizer(const Optimizer &) = delete;
  Optimizer &operator=(const Optimizer &) = delete;

  ~Optimizer() {
    tdm_plan_destroy(plan);
    tdm_kernel_destroy(kernel);
    tdm_package_close(file);
  }

  uint16_t *weights(int parameter) { return array(parameter, weight); }
  uint16_t *gradients(int parameter) { return array(parameter, gradient); }
  const tdm_kernel_info &description() const { return info; }

  /// Returns the arrays of a parameter, weights and states, which a checkpoint
  /// saves.
  std::vector<std::vector<char>> &state(int parameter) {
    return arrays[parameter];
  }

  /// Takes step number \p number; the first is 1.
  void step(int number, double rate) {
    std::vector<double> hypers;
    for (uint32_t i = 0; i < info.desc->num_hypers; ++i) {
      const tdm_hyper_desc &hyper = info.desc->hypers[i];
      hypers.push_back(std::strcmp(hyper.name, "lr") ? hyper.default_value
                                                     : rate);
    }
    std::vector<int64_t> integers;
    for (uint32_t i = 0; i < info.desc->num_integers; ++i) {
      bool isStep = info.desc->integers[i].kind == TDM_ROLE_STEP;
      integers.push_back(isStep ? number : 0);
    }
    check(tdm_plan_launch(plan, hypers.data(), integers.data(), 1, 0, nullptr));
  }

private:
  uint16_t *array(int parameter, uint32_t plane) {
    return reinterpret_cast<uint16_t *>(arrays[parameter][plane].data());
  }

  /// Returns the index of the bf16 plane with the network's weights or
  /// gradients.
  uint32_t find(tdm_role kind) const {
    for (uint32_t i = 0; i < info.desc->num_planes; ++i) {
      const tdm_plane_desc &plane = info.desc->planes[i];
      if (plane.kind == kind && plane.visible &&
          !std::strcmp(plane.type, "bf16"))
        return i;
    }
    fail(std::string("kernel '") + info.name +
         "' has no weights or gradients in bf16; write the package for "
         "another strategy");
  }

  /// Allocates zeros, the initial states in any storage.
  void allocate(int parameter) {
    for (uint32_t i = 0; i < info.desc->num_planes; ++i) {
      const tdm_plane_desc &plane = info.desc->planes[i];
      int64_t size = sizes[parameter];
      int64_t group = plane.group == TDM_WHOLE_TENSOR ? size : plane.group;
      int64_t entries = group > 1 ? (size + group - 1) / group : size;
      int64_t values = plane.history ? plane.history : 1;
      arrays[parameter].emplace_back(entries * values * plane.bits / 8);
    }
  }

  void bind() {
    std::vector<tdm_tensor> tensors;
    for (int parameter = 0; parameter < numParameters; ++parameter) {
      for (std::vector<char> &plane : arrays[parameter])
        pointers[parameter].push_back(plane.data());
      tdm_tensor tensor{};
      tensor.rows = 1;
      tensor.columns = sizes[parameter];
      tensor.key = parameter;
      tensor.planes = pointers[parameter].data();
      tensors.push_back(tensor);
    }
    check(tdm_plan_create(kernel, tensors.data(), tensors.size(), &plan));
  }

  tdm_package *file = nullptr;
  tdm_kernel *kernel = nullptr;
  tdm_plan *plan = nullptr;
  tdm_kernel_info info{};
  uint32_t weight = 0, gradient = 0;
  std::array<std::vector<std::vector<char>>, numParameters> arrays;
  std::array<std::vector<void *>, numParameters> pointers;
};

/// The network in floats, and the gradients of its loss.
struct Network {
  std::array<std::vector<float>, numParameters> weights, gradients;

  Network() {
    for (int parameter = 0; parameter < numParameters; ++parameter) {
      weights[parameter].resize(sizes[parameter]);
      gradients[parameter].resize(sizes[parameter]);
    }
  }

  /// Adds the gradients of one example and returns its loss.
  float learn(const std::array<float, inputs> &x, float target) {
    std::array<float, hidden> h;
    float y = 0.0f;
    for (int j = 0; j < hidden; ++j) {
      float sum = 0.0f;
      for (int i = 0; i < inputs; ++i)
        sum += weights[W1][j * inputs + i] * x[i];
      sum += weights[B1][j];
      h[j] = sum > 0.0f ? sum : 0.0f;
    }
    for (int j = 0; j < hidden; ++j)
      y += weights[W2][j] * h[j];
    y += weights[B2][0];
    float error = y - target, dy = error / float(batch);
    for (int j = 0; j < hidden; ++j) {
      gradients[W2][j] += dy * h[j];
      float dh = h[j] > 0.0f ? dy * weights[W2][j] : 0.0f;
      gradients[B1][j] += dh;
      for (int i = 0; i < inputs; ++i)
        gradients[W1][j * inputs + i] += dh * x[i];
    }
    gradients[B2][0] += dy;
    return error * error;
  }

  /// Computes the gradients of the batch of a step and returns its mean loss.
  float learnBatch(int step) {
    Random random{uint32_t(step)};
    for (std::vector<float> &gradient : gradients)
      gradient.assign(gradient.size(), 0.0f);
    float loss = 0.0f;
    for (int example = 0; example < batch; ++example) {
      std::array<float, inputs> x;
      for (float &value : x)
        value = random.next();
      loss += learn(x, x[0] * x[1]);
    }
    return loss / float(batch);
  }
};

/// Draws weights with a standard deviation near 1 / sqrt(inputs); biases are
/// zero.
void initialize(Optimizer &optimizer) {
  Random random(12345);
  for (auto [parameter, scale] : {std::pair(W1, 0.5f), std::pair(W2, 0.25f)})
    for (int i = 0; i < sizes[parameter]; ++i)
      optimizer.weights(parameter)[i] = toBFloat16(scale * random.next());
}

/// Reads or writes all arrays, so that the next run continues with the same
/// bits.
template <typename Stream, typename Transfer>
bool transfer(Optimizer &optimizer, Stream &stream, Transfer one) {
  for (int parameter = 0; parameter < numParameters; ++parameter)
    for (std::vector<char> &plane : optimizer.state(parameter))
      one(stream, plane);
  return bool(stream);
}

bool load(Optimizer &optimizer, const char *path) {
  std::ifstream file(path, std::ios::binary);
  return transfer(optimizer, file, [](std::ifstream &from, auto &plane) {
    from.read(plane.data(), std::streamsize(plane.size()));
  });
}

bool save(Optimizer &optimizer, const char *path) {
  std::ofstream file(path, std::ios::binary);
  return transfer(optimizer, file, [](std::ofstream &to, auto &plane) {
    to.write(plane.data(), std::streamsize(plane.size()));
  });
}

void train(Optimizer &optimizer, int first, int last) {
  Network network;
  for (int step = first; step <= last; ++step) {
    for (int parameter = 0; parameter < numParameters; ++parameter)
      for (int i = 0; i < sizes[parameter]; ++i)
        network.weights[parameter][i] =
            fromBFloat16(optimizer.weights(parameter)[i]);
    float loss = network.learnBatch(step);
    for (int parameter = 0; parameter < numParameters; ++parameter)
      for (int i = 0; i < sizes[parameter]; ++i)
        optimizer.gradients(parameter)[i] =
            toBFloat16(network.gradients[parameter][i]);
    optimizer.step(step, 0.01);
    if (step == 1 || step % 100 == 0)
      std::printf("step %d: loss %.5f\n", step, double(loss));
  }
}

} // namespace

int main(int argc, char **argv) {
  if (argc < 5 || argc > 6) {
    std::fprintf(stderr, "usage: train PACKAGE FIRST LAST STATE [TARGET]\n"
                         "trains from step FIRST to LAST; reads STATE if FIRST "
                         "is not 1, and writes it\n");
    return 2;
  }
  int first = std::atoi(argv[2]), last = std::atoi(argv[3]);
  Optimizer optimizer(argv[1], argc > 5 ? argv[5] : nullptr);
  std::printf("%s under %s, %u arrays\n", optimizer.description().graph,
              optimizer.description().strategy,
              optimizer.description().desc->num_planes);
  if (first == 1)
    initialize(optimizer);
  else if (!load(optimizer, argv[4]))
    fail(std::string("cannot read the state in '") + argv[4] + "'");
  train(optimizer, first, last);
  if (!save(optimizer, argv[4]))
    fail(std::string("cannot write '") + argv[4] + "'");
  return 0;
}
