//===- JaxFrame.h - Calls of XLA's ------------------------------*- C++ -*-===//
//
// Part of the Tandem Project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// This file declares the access of tandem.jax's library to XLA's call frames:
// buffers, attributes and the stream, through the C interface of XLA's FFI.
//
//===----------------------------------------------------------------------===//

#ifndef TANDEM_PYTHON_JAXFRAME_H
#define TANDEM_PYTHON_JAXFRAME_H

#include "xla/ffi/api/c_api.h"
#include <stdexcept>
#include <string>
#include <string_view>

/// An error that a handler reports to XLA.
struct Failure : std::runtime_error {
  Failure(XLA_FFI_Error_Code code, const std::string &message)
      : std::runtime_error(message), code(code) {}
  XLA_FFI_Error_Code code;
};

template <typename Value>
struct Span {
  const Value *data = nullptr;
  size_t size = 0;
  const Value &operator[](size_t i) const { return data[i]; }
};

/// The buffers, attributes, device and stream of a call.
class Frame {
public:
  explicit Frame(const XLA_FFI_CallFrame &frame) : frame(frame) {}

  std::string_view getText(std::string_view name) const;
  int64_t getNumber(std::string_view name) const;

  template <typename Value>
  Span<Value> getArray(std::string_view name, XLA_FFI_DataType type) const {
    const void *attr = getAttr(name, XLA_FFI_AttrType_ARRAY);
    auto &array = *static_cast<const XLA_FFI_Array *>(attr);
    require(array.dtype == type || array.size == 0, name);
    return {static_cast<const Value *>(array.data), array.size};
  }

  const XLA_FFI_Buffer &getOperand(int64_t index) const;
  const XLA_FFI_Buffer &getResult(int64_t index) const;

  /// Return the memory of an operand or a result; NULL for index -1.
  void *getOperandData(int64_t index) const {
    return index < 0 ? nullptr : getOperand(index).data;
  }
  void *getResultData(int64_t index) const {
    return index < 0 ? nullptr : getResult(index).data;
  }

  /// Return the number in an operand in the CPU's memory, which has 32 or 64
  /// bits.
  double getValue(int64_t index) const;
  int64_t getInteger(int64_t index) const;

  /// Return the CUstream of a call on a GPU, and the GPU's ordinal.
  void *getStream() const;
  int32_t getOrdinal() const;

  /// Throws a Failure unless `holds`: another version of tandem.jax has traced
  /// the call.
  static void require(bool holds, std::string_view name);

private:
  const void *getAttr(std::string_view name, XLA_FFI_AttrType type) const;
  void check(XLA_FFI_Error *error) const;

  const XLA_FFI_CallFrame &frame;
};

/// Returns the size of a buffer in bytes.
size_t getBytes(const XLA_FFI_Buffer &buffer);

/// Creates an error that XLA raises.
XLA_FFI_Error *makeError(const XLA_FFI_CallFrame &frame,
                         XLA_FFI_Error_Code code, const char *message);

#endif // TANDEM_PYTHON_JAXFRAME_H
