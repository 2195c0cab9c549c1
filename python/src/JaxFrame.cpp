//===- JaxFrame.cpp - Calls of XLA's --------------------------------------===//
//
// Part of the Tandem Project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// This file implements the access of tandem.jax's library to XLA's call frames.
//
//===----------------------------------------------------------------------===//

#include "JaxFrame.h"

//===----------------------------------------------------------------------===//
// Attributes
//===----------------------------------------------------------------------===//

const void *Frame::getAttr(std::string_view name, XLA_FFI_AttrType type) const {
  const XLA_FFI_Attrs &attrs = frame.attrs;
  for (int64_t i = 0; i < attrs.size; ++i)
    if (name == std::string_view(attrs.names[i]->ptr, attrs.names[i]->len) &&
        attrs.types[i] == type)
      return attrs.attrs[i];
  require(false, name);
  return nullptr;
}

std::string_view Frame::getText(std::string_view name) const {
  const void *attr = getAttr(name, XLA_FFI_AttrType_STRING);
  auto &span = *static_cast<const XLA_FFI_ByteSpan *>(attr);
  return {span.ptr, span.len};
}

int64_t Frame::getNumber(std::string_view name) const {
  const void *attr = getAttr(name, XLA_FFI_AttrType_SCALAR);
  auto &scalar = *static_cast<const XLA_FFI_Scalar *>(attr);
  require(scalar.dtype == XLA_FFI_DataType_S64, name);
  return *static_cast<const int64_t *>(scalar.value);
}

//===----------------------------------------------------------------------===//
// Buffers
//===----------------------------------------------------------------------===//

const XLA_FFI_Buffer &Frame::getOperand(int64_t index) const {
  require(index >= 0 && index < frame.args.size, "operands");
  return *static_cast<const XLA_FFI_Buffer *>(frame.args.args[index]);
}

const XLA_FFI_Buffer &Frame::getResult(int64_t index) const {
  require(index >= 0 && index < frame.rets.size, "results");
  return *static_cast<const XLA_FFI_Buffer *>(frame.rets.rets[index]);
}

double Frame::getValue(int64_t index) const {
  const XLA_FFI_Buffer &buffer = getOperand(index);
  switch (buffer.dtype) {
  case XLA_FFI_DataType_F32:
    return *static_cast<const float *>(buffer.data);
  case XLA_FFI_DataType_F64:
    return *static_cast<const double *>(buffer.data);
  default:
    return double(getInteger(index));
  }
}

int64_t Frame::getInteger(int64_t index) const {
  const XLA_FFI_Buffer &buffer = getOperand(index);
  if (buffer.dtype == XLA_FFI_DataType_S64)
    return *static_cast<const int64_t *>(buffer.data);
  require(buffer.dtype == XLA_FFI_DataType_S32, "scalars");
  return *static_cast<const int32_t *>(buffer.data);
}

size_t getBytes(const XLA_FFI_Buffer &buffer) {
  size_t bytes = 0;
  switch (buffer.dtype) {
  case XLA_FFI_DataType_F32:
  case XLA_FFI_DataType_S32:
  case XLA_FFI_DataType_U32:
    bytes = 4;
    break;
  case XLA_FFI_DataType_BF16:
  case XLA_FFI_DataType_F16:
  case XLA_FFI_DataType_S16:
  case XLA_FFI_DataType_U16:
    bytes = 2;
    break;
  default:
    bytes = 1;
  }
  for (int64_t i = 0; i < buffer.rank; ++i)
    bytes *= buffer.dims[i];
  return bytes;
}

//===----------------------------------------------------------------------===//
// The GPU of a call
//===----------------------------------------------------------------------===//

void *Frame::getStream() const {
  XLA_FFI_Stream_Get_Args args = {};
  args.struct_size = XLA_FFI_Stream_Get_Args_STRUCT_SIZE;
  args.ctx = frame.ctx;
  check(frame.api->XLA_FFI_Stream_Get(&args));
  return args.stream;
}

int32_t Frame::getOrdinal() const {
  XLA_FFI_DeviceOrdinal_Get_Args args = {};
  args.struct_size = XLA_FFI_DeviceOrdinal_Get_Args_STRUCT_SIZE;
  args.ctx = frame.ctx;
  check(frame.api->XLA_FFI_DeviceOrdinal_Get(&args));
  return args.device_ordinal;
}

//===----------------------------------------------------------------------===//
// Errors
//===----------------------------------------------------------------------===//

void Frame::require(bool holds, std::string_view name) {
  if (!holds)
    throw Failure(XLA_FFI_Error_Code_INTERNAL,
                  "a launch of tandem.jax has unexpected " + std::string(name) +
                      "; trace its function anew with this version");
}

/// Throws a Failure if XLA has returned an error.
void Frame::check(XLA_FFI_Error *error) const {
  if (!error)
    return;
  XLA_FFI_Error_GetMessage_Args args = {};
  args.struct_size = XLA_FFI_Error_GetMessage_Args_STRUCT_SIZE;
  args.error = error;
  frame.api->XLA_FFI_Error_GetMessage(&args);
  std::string message = args.message;
  XLA_FFI_Error_Destroy_Args destroy = {};
  destroy.struct_size = XLA_FFI_Error_Destroy_Args_STRUCT_SIZE;
  destroy.error = error;
  frame.api->XLA_FFI_Error_Destroy(&destroy);
  throw Failure(XLA_FFI_Error_Code_INTERNAL,
                "XLA does not say where a launch of tandem.jax runs: " +
                    message);
}

XLA_FFI_Error *makeError(const XLA_FFI_CallFrame &frame,
                         XLA_FFI_Error_Code code, const char *message) {
  XLA_FFI_Error_Create_Args args = {};
  args.struct_size = XLA_FFI_Error_Create_Args_STRUCT_SIZE;
  args.message = message;
  args.errc = code;
  return frame.api->XLA_FFI_Error_Create(&args);
}
