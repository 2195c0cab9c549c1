//===- jax_stand_in.cpp - XLA's CPU as if it were a GPU -------------------===//
//
// Part of the Tandem Project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// This file implements a handler that XLA calls on the CPU. It calls the CUDA
// handler with an interface whose streams and devices are those of a driver
// without a GPU, which shares the process's memory.
//
//===----------------------------------------------------------------------===//

#include "xla/ffi/api/c_api.h"

static XLA_FFI_Handler *handler;
static void *stream;
static int32_t ordinal;
static const XLA_FFI_Api *real;

static XLA_FFI_Error *getStream(XLA_FFI_Stream_Get_Args *args) {
  args->stream = stream;
  if (stream)
    return nullptr;
  XLA_FFI_Error_Create_Args error = {};
  error.struct_size = XLA_FFI_Error_Create_Args_STRUCT_SIZE;
  error.message = "there is no stream";
  error.errc = XLA_FFI_Error_Code_UNAVAILABLE;
  return real->XLA_FFI_Error_Create(&error);
}

static XLA_FFI_Error *getOrdinal(XLA_FFI_DeviceOrdinal_Get_Args *args) {
  args->device_ordinal = ordinal;
  return nullptr;
}

/// Sets the CUDA handler, and the stream and GPU ordinal of all calls.
extern "C" void jax_stand_in_set(XLA_FFI_Handler *newHandler, void *newStream,
                                 int32_t newOrdinal) {
  handler = newHandler;
  stream = newStream;
  ordinal = newOrdinal;
}

extern "C" XLA_FFI_Error *jax_stand_in(XLA_FFI_CallFrame *frame) {
  if (!frame->api)
    return handler(frame);
  real = frame->api;
  XLA_FFI_Api api = *frame->api;
  api.XLA_FFI_Stream_Get = getStream;
  api.XLA_FFI_DeviceOrdinal_Get = getOrdinal;
  XLA_FFI_CallFrame call = *frame;
  call.api = &api;
  return handler(&call);
}
