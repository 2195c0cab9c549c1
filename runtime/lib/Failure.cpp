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
#include <iterator>

using namespace tandem::runtime;

namespace {

/// A part of a message that is not plain text.
struct Mark {
  tdm_message_kind kind;
  int64_t index;
  size_t begin, end;
};

/// A message in a buffer of fixed size, which truncates longer text.
struct Message {
  char text[1024];
  size_t size;
  /// The parts of the text that a program can query, in their order.
  Mark marks[8];
  size_t numMarks;

  void append(const char *begin, size_t length) {
    length = std::min(length, sizeof(text) - 1 - size);
    std::memcpy(text + size, begin, length);
    size += length;
    text[size] = '\0';
  }

  /// Makes the text from \p begin to the end a part.
  void mark(tdm_message_kind kind, int64_t index, size_t begin) {
    if (numMarks < std::size(marks))
      marks[numMarks++] = {kind, index, begin, size};
  }
};

} // namespace

static thread_local Message message;

Failure::Failure(tdm_status status) : status(status) {
  message.size = message.numMarks = 0;
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

Failure &Failure::appendNumber(tdm_message_kind kind, const char *what,
                               int64_t index) {
  size_t begin = message.size;
  *this << what << index;
  message.mark(kind, index, begin);
  return *this;
}

Failure &Failure::appendName(tdm_message_kind kind, int64_t index,
                             const char *name) {
  size_t begin = message.size;
  *this << name;
  message.mark(kind, index, begin);
  return *this;
}

Failure &Failure::operator<<(TensorNumber tensor) {
  return appendNumber(TDM_MESSAGE_TENSOR, "tensor ", tensor.index);
}

Failure &Failure::operator<<(RowNumber row) {
  return appendNumber(TDM_MESSAGE_ROW, "row ", row.index);
}

Failure &Failure::operator<<(PlaneName plane) {
  return appendName(TDM_MESSAGE_PLANE, plane.index, plane.name);
}

Failure &Failure::operator<<(HyperName hyper) {
  return appendName(TDM_MESSAGE_HYPER, hyper.index, hyper.name);
}

Failure &Failure::operator<<(IntegerName integer) {
  return appendName(TDM_MESSAGE_INTEGER, integer.index, integer.name);
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

size_t tdm_last_error_parts(tdm_message_part *parts, size_t capacity) {
  size_t count = 0, position = 0;
  auto append = [&](tdm_message_kind kind, int64_t index, size_t end) {
    if (end == position)
      return;
    if (count < capacity)
      parts[count] = {kind, index, message.text + position, end - position};
    ++count;
    position = end;
  };
  for (size_t i = 0; i < message.numMarks; ++i) {
    const Mark &mark = message.marks[i];
    append(TDM_MESSAGE_TEXT, 0, mark.begin);
    append(mark.kind, mark.index, mark.end);
  }
  append(TDM_MESSAGE_TEXT, 0, message.size);
  return count;
}

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
  case TDM_EXCHANGE_ERROR:
    return "exchange error";
  }
  return "unknown status";
}
