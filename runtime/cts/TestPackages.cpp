//===- TestPackages.cpp - Packages written by hand ------------------------===//
//
// Part of the Tandem Project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// This file implements the writing of packages for tests, which uses only the
// schema.
//
//===----------------------------------------------------------------------===//

#include "TestPackages.h"
#include "SHA256.h"

#include <cmath>
#include <cstring>
#include <fstream>
#include <iterator>

using namespace tandem;

package::PackageT cts::describeCount() {
  auto plane = std::make_unique<package::PlaneT>();
  plane->name = plane->role = "count";
  plane->type = "i8";
  plane->doc = "a count";
  plane->bits = 8;
  plane->access = TDM_ACCESS_READ | TDM_ACCESS_WRITE;
  plane->group = 1;
  plane->kind = TDM_ROLE_STATE;
  plane->persistent = true;
  auto hyper = std::make_unique<package::HyperT>();
  hyper->name = "lr";
  hyper->max = INFINITY;
  hyper->max_open = true;
  hyper->default_value = 0.5;
  auto integer = std::make_unique<package::IntegerT>();
  integer->name = "step";
  integer->min = 1;
  integer->kind = TDM_ROLE_STEP;
  auto part = std::make_unique<package::PartT>();
  part->entry = "tandem_count";
  auto kernel = std::make_unique<package::KernelT>();
  kernel->name = kernel->graph = "count";
  kernel->strategy = "plain";
  kernel->compute = "f32 f32";
  kernel->ir = "module {}";
  kernel->prologue = "tandem_count_prologue";
  kernel->planes.push_back(std::move(plane));
  kernel->hypers.push_back(std::move(hyper));
  kernel->integers.push_back(std::move(integer));
  kernel->phases.push_back(std::move(part));
  package::PackageT result;
  result.compiler = "a test";
  result.kernels.push_back(std::move(kernel));
  return result;
}

std::string cts::readCode(int step) {
  std::ifstream file(step == 1 ? TANDEM_COUNT_BY_ONE : TANDEM_COUNT_BY_TWO,
                     std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

void cts::addImage(package::PackageT &package, const std::string &data,
                   const std::string &target) {
  auto image = std::make_unique<package::ImageT>();
  image->kind = packedLibrary;
  image->target = target;
  image->data.assign(data.begin(), data.end());
  runtime::SHA256 hash;
  hash.add(data.data(), data.size());
  runtime::Digest digest = hash.finish();
  image->sha256.assign(digest.begin(), digest.end());
  package.kernels[0]->images.push_back(std::move(image));
}

std::string cts::pack(const package::PackageT &package) {
  flatbuffers::FlatBufferBuilder builder;
  builder.Finish(package::Package::Pack(builder, &package));
  return {reinterpret_cast<const char *>(builder.GetBufferPointer()),
          builder.GetSize()};
}

std::string cts::addHeader(const std::string &content, uint32_t version) {
  std::string header("\x89TANDEM\n");
  uint32_t size = 64;
  uint64_t numbers[] = {content.size(), 0};
  header.append(reinterpret_cast<const char *>(&version), 4);
  header.append(reinterpret_cast<const char *>(&size), 4);
  header.append(reinterpret_cast<const char *>(numbers), 16);
  runtime::SHA256 hash;
  hash.add(header.data(), header.size());
  hash.add(content.data(), content.size());
  runtime::Digest digest = hash.finish();
  header.append(digest.begin(), digest.end());
  return header + content;
}
