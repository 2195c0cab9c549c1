//===- tandem_product.h - Matrix products of 8-bit floats -------*- C++ -*-===//
//
// Part of the Tandem Project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// This file declares matrix products on a GPU, of 8-bit floats with a scale for
// each tensor, which NVIDIA's cuBLASLt computes. Its library is loaded when the
// first product is created. It is the one that TANDEM_CUBLASLT names or else a
// "libcublasLt.so.13" or 12 that the process has already loaded, that is next
// to CUDA's or PyTorch's libraries or in NVIDIA's Python packages, or that the
// system finds.
//
//===----------------------------------------------------------------------===//

#ifndef TANDEM_RUNTIME_TANDEM_PRODUCT_H
#define TANDEM_RUNTIME_TANDEM_PRODUCT_H

#include "tandem_runtime.h"

#ifdef __cplusplus
extern "C" {
#endif

/// The format of a factor's elements.
typedef enum tdm_factor {
  TDM_FACTOR_E4M3 = 0,
  TDM_FACTOR_E5M2 = 1,
  TDM_FACTOR_BF16 = 2
} tdm_factor;

/// A product y = (x * x_scale) @ (w * w_scale)^T, plus an optional bias for
/// each column of y. The shapes are those of a linear layer: x is \c rows by
/// \c depth, w is \c columns by \c depth, and y, in bf16, is \c rows by
/// \c columns; all are contiguous and row-major. Sums are accumulated in f32.
///
/// The factors are both bf16, or both 8-bit floats of which at most one is
/// E5M2. Dimensions are multiples of 16, or of 8 for bf16.
typedef struct tdm_product_desc {
  /// sizeof(tdm_product_desc), set by the caller.
  size_t struct_size;
  int64_t rows;
  int64_t columns;
  int64_t depth;
  /// The formats of the factors, each a tdm_factor.
  uint32_t x;
  uint32_t w;
  /// Nonzero if there is a bias.
  uint32_t bias;
  /// Nonzero if products of 8-bit floats may be accumulated with fewer bits
  /// than f32 has, which is faster on some GPUs.
  uint32_t fast;
} tdm_product_desc;

/// The addresses of a product's tensors in the memory of its GPU. All except
/// the scales are aligned to 16 bytes.
typedef struct tdm_product_args {
  /// sizeof(tdm_product_args), set by the caller.
  size_t struct_size;
  /// A CUstream; NULL is the default stream.
  void *stream;
  const void *x;
  const void *w;
  /// The addresses of the scales that x and w are multiplied by, read when the
  /// product is computed; NULL for factors in bf16.
  const float *x_scale;
  const float *w_scale;
  /// The address of one bf16 number for each column of y, or NULL if there is
  /// no bias.
  const void *bias;
  void *y;
  /// Memory for sums, which no other work uses at the time; 32 MiB are enough
  /// for all that cuBLASLt has. The first launch finds the fastest way for
  /// its size, and later launches have at least as many bytes.
  void *workspace;
  size_t workspace_bytes;
} tdm_product_args;

/// A product of matrices of one size. Threads may share it.
typedef struct tdm_product tdm_product;

/// Stores in \p product a new product on a GPU. Fails with TDM_UNAVAILABLE if
/// there is no cuBLASLt or the GPU does not support these factors: 8-bit floats
/// need sm_89, and bf16 needs sm_80.
TDM_API tdm_status tdm_product_create(const tdm_device *device,
                                      const tdm_product_desc *desc,
                                      tdm_product **product);

/// Enqueues the product on a stream and does not wait for it. The launch can be
/// captured in a graph.
TDM_API tdm_status tdm_product_launch(tdm_product *product,
                                      const tdm_product_args *args);

/// Destroys a product. Launches that are already enqueued complete. NULL is
/// allowed.
TDM_API void tdm_product_destroy(tdm_product *product);

#ifdef __cplusplus
}
#endif

#endif // TANDEM_RUNTIME_TANDEM_PRODUCT_H
