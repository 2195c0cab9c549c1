//===- Failure.h - Status and message of a failed call ----------*- C++ -*-===//
//
// Part of the Tandem Project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// This file declares the stream that turns a failed check into a status and a
// thread-local message. Nothing here allocates or throws, so that running out
// of memory can be reported like any other error.
//
//===----------------------------------------------------------------------===//

#ifndef TANDEM_RUNTIME_LIB_FAILURE_H
#define TANDEM_RUNTIME_LIB_FAILURE_H

#include "tandem-runtime/tandem_runtime.h"

#include <new>
#include <string>
#include <type_traits>

namespace tandem::runtime {

/// A tensor of the caller's list, in a message.
struct TensorNumber {
  int64_t index;
};

/// A row of the caller's scalars, in a message.
struct RowNumber {
  int64_t index;
};

/// A plane, hyperparameter or integer of the kernel, in a message: its index
/// and its name.
struct PlaneName {
  int64_t index;
  const char *name;
};
struct HyperName {
  int64_t index;
  const char *name;
};
struct IntegerName {
  int64_t index;
  const char *name;
};

/// Replaces this thread's message with the text that << appends, and converts
/// to its status:
///   return Failure(TDM_INVALID_ARGUMENT) << TensorNumber{i} << ": rows ...";
class Failure {
public:
  explicit Failure(tdm_status status);

  Failure &operator<<(const char *text);
  Failure &operator<<(const std::string &text) { return *this << text.c_str(); }
  /// Appends the shortest decimal that reads back as \p value.
  Failure &operator<<(double value);
  /// Append "tensor 3" and "row 3", each as a part.
  Failure &operator<<(TensorNumber tensor);
  Failure &operator<<(RowNumber row);
  /// Append a name as a part.
  Failure &operator<<(PlaneName plane);
  Failure &operator<<(HyperName hyper);
  Failure &operator<<(IntegerName integer);
  /// Appends an address in hexadecimal.
  Failure &operator<<(const void *address);
  template <typename T, std::enable_if_t<std::is_integral_v<T>, int> = 0>
  Failure &operator<<(T value) {
    if constexpr (std::is_signed_v<T>)
      return appendSigned(value);
    else
      return appendUnsigned(value);
  }

  operator tdm_status() const { return status; }

private:
  Failure &appendNumber(tdm_message_kind kind, const char *what, int64_t index);
  Failure &appendName(tdm_message_kind kind, int64_t index, const char *name);
  Failure &appendSigned(int64_t value);
  Failure &appendUnsigned(uint64_t value);

  tdm_status status;
};

/// Returns the message of the latest Failure of this thread.
const char *lastMessage();

/// Runs \p body and turns exceptions into a status, so that none crosses the C
/// interface. The library itself throws only when it is out of memory.
template <typename Body>
tdm_status guarded(const char *function, Body body) {
  try {
    return body();
  } catch (...) {
    return Failure(TDM_OUT_OF_MEMORY)
           << function << ": out of memory; free some or use fewer tensors";
  }
}

} // namespace tandem::runtime

#endif // TANDEM_RUNTIME_LIB_FAILURE_H
