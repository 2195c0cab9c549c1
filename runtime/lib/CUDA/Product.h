//===- Product.h - Matrix products on a GPU ---------------------*- C++ -*-===//
//
// Part of the Tandem Project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// This file declares matrix products on a GPU.
//
//===----------------------------------------------------------------------===//

#ifndef TANDEM_RUNTIME_LIB_CUDA_PRODUCT_H
#define TANDEM_RUNTIME_LIB_CUDA_PRODUCT_H

#include "CublasLt.h"
#include "tandem-runtime/tandem_product.h"

#include <mutex>

namespace tandem::runtime::cuda {

/// A product of matrices of one size.
///
/// cuBLASLt uses column-major matrices while the runtime's are row-major, so
/// each matrix appears to it as its transpose. It therefore computes the
/// transpose of y as the product of w, transposed, and x.
class Product {
public:
  Product(std::shared_ptr<const CublasLtSession> session,
          const tdm_product_desc &desc)
      : session(std::move(session)), library(this->session->library),
        desc(desc) {}
  ~Product();
  Product(const Product &) = delete;

  tdm_status create();
  tdm_status launch(const tdm_product_args &args);

private:
  bool isNarrow() const { return desc.x != TDM_FACTOR_BF16; }
  tdm_status createDesc();
  tdm_status createLayouts();
  tdm_status checkArguments(const tdm_product_args &args) const;
  tdm_status launchOn(const tdm_product_args &args);
  /// Sets the addresses of the scales and the bias in the description.
  tdm_status setPointers(const tdm_product_args &args);
  tdm_status findAlgorithm(size_t workspaceBytes);
  tdm_status askForAlgorithm(Preference preference, size_t workspaceBytes);

  template <typename T>
  tdm_status set(MatmulAttribute attribute, const T &value) {
    return library.call(library.descSetAttribute, operation, attribute,
                        static_cast<const void *>(&value), sizeof(value));
  }

  const std::shared_ptr<const CublasLtSession> session;
  const CublasLt &library;
  const tdm_product_desc desc;
  /// Guards the members below.
  std::mutex mutex;
  MatmulDesc operation = nullptr;
  MatrixLayout x = nullptr, w = nullptr, y = nullptr;
  Algorithm algorithm = {};
  /// The size in bytes of the workspace for which the algorithm was found.
  size_t workspaceBytes = 0;
  bool isFound = false;
};

} // namespace tandem::runtime::cuda

#endif // TANDEM_RUNTIME_LIB_CUDA_PRODUCT_H
