//===- Errors.cpp - Errors in Python --------------------------------------===//
//
// Part of the Tandem Project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// This file implements the exceptions of the Python extension.
//
//===----------------------------------------------------------------------===//

#include "Errors.h"
#include "Compiler.h"
#include "tandem-c/Error.h"
#include <nanobind/nanobind.h>
#include <vector>

namespace nb = nanobind;

#define VALUE_NAME(enumerator, name) #name,

/// Returns the parts of a message, which `write` of one of the C interfaces
/// stores, as tuples of kind, index and text.
static nb::list getParts(size_t (*write)(tdm_message_part *, size_t)) {
  static const char *const kinds[] = {TDM_MESSAGE_KINDS(VALUE_NAME)};
  std::vector<tdm_message_part> parts(write(nullptr, 0));
  write(parts.data(), parts.size());
  nb::list list;
  for (const tdm_message_part &part : parts)
    list.append(nb::make_tuple(kinds[part.kind], part.index,
                               nb::str(part.text, part.size)));
  return list;
}

[[noreturn]] static void raise(PyObject *type, const nb::object &error) {
  PyErr_SetObject(type, error.ptr());
  throw nb::python_error();
}

/// Returns a string, or None if it is empty.
static nb::object orNone(const char *text) {
  return *text ? nb::object(nb::str(text)) : nb::none();
}

/// Returns a number that counts from 1, or None if it is 0.
static nb::object orNone(int64_t number) {
  return number ? nb::object(nb::int_(number)) : nb::none();
}

void throwCompilerError() {
  static const char *const kinds[] = {TANDEM_ERROR_KINDS(VALUE_NAME)};
  TandemError known = compiler().tandemGetLastErrorInfo();
  nb::object error =
      nb::handle(PyExc_ValueError)(compiler().tandemGetLastError());
  error.attr("parts") = getParts(compiler().tandemGetLastErrorParts);
  error.attr("kind") = kinds[known.kind];
  error.attr("file") = orNone(known.file);
  error.attr("line") = orNone(known.line);
  error.attr("column") = orNone(known.column);
  error.attr("operation") = orNone(known.operation);
  raise(PyExc_ValueError, error);
}

/// Creates a ValueError without a source location.
static nb::object createError(const char *message, const char *kind,
                              const nb::list &parts) {
  nb::object error = nb::handle(PyExc_ValueError)(message);
  error.attr("parts") = parts;
  error.attr("kind") = kind;
  for (const char *field : {"file", "line", "column", "operation"})
    error.attr(field) = nb::none();
  return error;
}

void throwError(
    const char *kind,
    const std::vector<std::pair<const char *, std::string>> &parts) {
  std::string message;
  nb::list list;
  for (const auto &[partKind, text] : parts) {
    message += text;
    list.append(nb::make_tuple(partKind, 0, nb::str(text.c_str())));
  }
  raise(PyExc_ValueError, createError(message.c_str(), kind, list));
}

static void checkKind(tdm_status status, const char *kind) {
  if (status != TDM_OK)
    raise(PyExc_ValueError,
          createError(tdm_last_error(), kind, getParts(tdm_last_error_parts)));
}
void checkFile(tdm_status status) { checkKind(status, "io"); }
void checkTarget(tdm_status status) { checkKind(status, "target"); }

/// Returns the exception type for a status.
static PyObject *getType(tdm_status status) {
  if (status == TDM_OUT_OF_MEMORY)
    return PyExc_MemoryError;
  bool isOfDevice = status == TDM_UNAVAILABLE || status == TDM_DEVICE_ERROR;
  return isOfDevice ? PyExc_RuntimeError : PyExc_ValueError;
}

void check(tdm_status status) {
  if (status == TDM_OK)
    return;
  PyObject *type = getType(status);
  nb::object error = nb::handle(type)(tdm_last_error());
  error.attr("parts") = getParts(tdm_last_error_parts);
  raise(type, error);
}
