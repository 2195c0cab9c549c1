//===- Large.cpp - Tensors of more than 2^31 elements ---------------------===//
//
// Part of the Tandem Project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// This file implements the comparison of a step over one large tensor, whose
// number of elements does not fit into 32 bits.
//
//===----------------------------------------------------------------------===//

#include "GPUCheck.h"

#include <algorithm>
#include <cstring>
#include <fstream>

using namespace gpucheck;

/// The period of the contents. It is prime, so that elements 2^31 or 2^32
/// elements or bytes apart differ.
static constexpr int64_t sampleElements = 15485863;
static constexpr int64_t pieceBytes = int64_t(64) << 20;

//===----------------------------------------------------------------------===//
// Memory
//===----------------------------------------------------------------------===//

/// Returns the available memory of this machine in bytes, or a guess if the
/// system does not report it.
static int64_t availableBytes() {
  std::ifstream file("/proc/meminfo");
  for (std::string key, unit; file >> key;) {
    int64_t value = 0;
    if (!(file >> value) || !std::getline(file, unit))
      break;
    if (key == "MemAvailable:")
      return value * 1024;
  }
  return int64_t(8) << 30;
}

static Shape shapeOf(const tdm_kernel_info &info, int64_t elements) {
  if (!info.desc->matrix)
    return {1, elements};
  int64_t columns = std::min<int64_t>(elements, 4096);
  return {elements / columns, columns};
}

/// Halves \p elements until both devices have enough memory.
static int64_t chooseElements(tdm_device *gpu, const tdm_kernel_info &info,
                              int64_t elements, bool isCPU) {
  for (;; elements /= 2) {
    auto bytes = int64_t(sizeOf(*info.desc, shapeOf(info, elements)));
    bool fitsHost = availableBytes() > bytes / 10 * 11 * (isCPU ? 2 : 1);
    if (elements <= 1 || (fitsHost && fits(gpu, size_t(bytes))))
      return elements;
  }
}

//===----------------------------------------------------------------------===//
// Pieces
//===----------------------------------------------------------------------===//

namespace {
/// A range of bytes of a plane.
struct Piece {
  uint32_t plane;
  int64_t begin, bytes;
  bool isFirst;
};
} // namespace

/// Returns the pieces of all planes. Those at the ends, around 2^31 elements or
/// bytes and around 2^32 bytes come first.
static std::vector<Piece> piecesOf(const tdm_kernel_desc &desc, Shape shape) {
  std::vector<Piece> pieces;
  for (uint32_t i = 0; i < desc.num_planes; ++i) {
    int64_t bytes = bytesOf(desc, desc.planes[i], shape);
    int64_t group = std::max<int64_t>(1, desc.planes[i].group);
    int64_t wrap =
        (int64_t(1) << 31) / group * int64_t(desc.planes[i].bits) / 8;
    for (int64_t begin = 0; begin < bytes; begin += pieceBytes) {
      int64_t end = std::min(bytes, begin + pieceBytes);
      bool isFirst = begin == 0 || end == bytes;
      for (int64_t at : {wrap, int64_t(1) << 31, int64_t(1) << 32})
        isFirst |= begin <= at && at <= end;
      pieces.push_back({i, begin, end - begin, isFirst});
    }
  }
  std::stable_partition(pieces.begin(), pieces.end(),
                        [](const Piece &piece) { return piece.isFirst; });
  return pieces;
}

static std::string comparePiece(tdm_device *gpu, const tdm_kernel_info &info,
                                const Bound &onCPU, const Bound &onGPU,
                                const Piece &piece,
                                std::vector<uint8_t> &buffer) {
  auto *want = static_cast<uint8_t *>(onCPU.plane(piece.plane)) + piece.begin;
  auto *got = static_cast<uint8_t *>(onGPU.plane(piece.plane)) + piece.begin;
  auto bytes = size_t(piece.bytes);
  require(tdm_device_copy(gpu, buffer.data(), got, bytes));
  if (!std::memcmp(want, buffer.data(), bytes))
    return "";
  auto at = std::mismatch(want, want + bytes, buffer.begin()).first - want;
  return std::string("plane '") + info.desc->planes[piece.plane].name +
         "' differs at byte " + std::to_string(piece.begin + at);
}

static void comparePieces(tdm_device *gpu, const tdm_kernel_info &info,
                          const Bound &onCPU, const Bound &onGPU, Shape shape,
                          const std::function<bool()> &isLate,
                          LargeResult &result) {
  std::vector<uint8_t> buffer(pieceBytes);
  double compared = 0, all = double(sizeOf(*info.desc, shape));
  for (const Piece &piece : piecesOf(*info.desc, shape)) {
    if (!piece.isFirst && isLate()) {
      result.note += "the time was up; ";
      break;
    }
    result.verdict = comparePiece(gpu, info, onCPU, onGPU, piece, buffer);
    if (!result.verdict.empty())
      return;
    result.share = (compared += double(piece.bytes)) / all;
  }
  result.verdict = "equal";
}

LargeResult gpucheck::compareLarge(tdm_device *cpu, tdm_device *gpu,
                                   tdm_kernel *cpuKernel, tdm_kernel *gpuKernel,
                                   const tdm_kernel_info &info,
                                   int64_t elements,
                                   const std::function<bool()> &isLate) {
  LargeResult result;
  tdm_device_info device = {};
  device.struct_size = sizeof(device);
  require(tdm_device_query(gpu, &device));
  result.elements =
      chooseElements(gpu, info, elements, device.driver == std::string("cpu"));
  if (result.elements != elements)
    result.note = "there is no memory for " + std::to_string(elements) + "; ";
  Shape shape = shapeOf(info, result.elements);
  Contents contents = makeContents(
      info, {shapeOf(info, std::min(result.elements, sampleElements))},
      Fill::Numbers, 6);
  Bound onGPU(gpu, gpuKernel, info, {shape}, contents);
  std::printf("  the GPU has %lld elements\n", (long long)result.elements);
  std::fflush(stdout);
  uint32_t flags = onGPU.launch(1);
  std::printf("  the GPU has made its step\n");
  std::fflush(stdout);
  Bound onCPU(cpu, cpuKernel, info, {shape}, contents);
  bool isSame = onCPU.launch(1, /*threads=*/0) == flags;
  std::printf("  the CPU has made its step\n");
  std::fflush(stdout);
  comparePieces(gpu, info, onCPU, onGPU, shape, isLate, result);
  if (!isSame)
    result.verdict = "the flags differ";
  return result;
}
