//===- Failure.cpp - Status and message of a failed call ------------------===//
//
// Part of the Tandem Project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// This file implements the messages of failed calls and the names of statuses.
//
//===----------------------------------------------------------------------===//

#include "Failure.h"

#include <algorithm>
#include <charconv>
#include <cstring>

using namespace tandem::runtime;

namespace {

/// A message that is cut, never grown.
struct Message {
  char text[1024];
  size_t size;

  void append(const char *begin, size_t length) {
    length = std::min(length, sizeof(text) - 1 - size);
    std::memcpy(text + size, begin, length);
    size += length;
    text[size] = '\0';
  }
};

} // namespace

static thread_local Message message;

Failure::Failure(tdm_status status) : status(status) {
  message.size = 0;
  message.text[0] = '\0';
}

Failure &Failure::operator<<(const char *text) {
  message.append(text, std::strlen(text));
  return *this;
}

template <typename... Value>
static void appendChars(Value... value) {
  char digits[64];
  auto result = std::to_chars(digits, digits + sizeof(digits), value...);
  message.append(digits, result.ptr - digits);
}

Failure &Failure::operator<<(double value) {
  appendChars(value);
  return *this;
}

Failure &Failure::operator<<(const void *address) {
  message.append("0x", 2);
  appendChars(reinterpret_cast<uintptr_t>(address), 16);
  return *this;
}

Failure &Failure::appendSigned(int64_t value) {
  appendChars(value);
  return *this;
}

Failure &Failure::appendUnsigned(uint64_t value) {
  appendChars(value);
  return *this;
}

const char *tandem::runtime::lastMessage() { return message.text; }

uint32_t tdm_runtime_version(void) { return TDM_RUNTIME_VERSION; }

const char *tdm_last_error(void) { return lastMessage(); }

const char *tdm_status_string(tdm_status status) {
  switch (status) {
  case TDM_OK:
    return "ok";
  case TDM_INVALID_ARGUMENT:
    return "invalid argument";
  case TDM_OUT_OF_DOMAIN:
    return "out of domain";
  case TDM_OVERLAP:
    return "overlapping planes";
  case TDM_OUT_OF_MEMORY:
    return "out of memory";
  case TDM_INVALID_STATE:
    return "invalid state";
  case TDM_UNAVAILABLE:
    return "unavailable";
  case TDM_DEVICE_ERROR:
    return "device error";
  case TDM_INVALID_PACKAGE:
    return "invalid package";
  }
  return "unknown status";
}
