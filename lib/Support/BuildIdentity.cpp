//===- BuildIdentity.cpp - What tells builds of a library apart -----------===//
//
// Part of the Tandem Project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// This file implements the identity of the libraries in this process.
//
//===----------------------------------------------------------------------===//

#include "tandem/Support/BuildIdentity.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/ADT/StringRef.h"
#include "llvm/Support/FileSystem.h"

#ifndef _WIN32
#include <dlfcn.h>
#endif
#ifdef __linux__
#include <elf.h>
#include <link.h>
#endif

using namespace llvm;

#ifdef __linux__

static bool contains(const dl_phdr_info &object, uintptr_t address) {
  for (const auto &segment : ArrayRef(object.dlpi_phdr, object.dlpi_phnum)) {
    uintptr_t begin = object.dlpi_addr + segment.p_vaddr;
    if (segment.p_type == PT_LOAD && address >= begin &&
        address - begin < segment.p_memsz)
      return true;
  }
  return false;
}

/// Returns the build ID among the notes of a segment; empty if there is none.
static StringRef findBuildID(StringRef notes) {
  auto align = [](size_t size) { return (size + 3) & ~size_t(3); };
  while (notes.size() >= sizeof(ElfW(Nhdr))) {
    ElfW(Nhdr) header;
    std::memcpy(&header, notes.data(), sizeof(header));
    StringRef rest = notes.drop_front(sizeof(header));
    StringRef name = rest.take_front(header.n_namesz);
    rest = rest.drop_front(std::min(rest.size(), align(header.n_namesz)));
    if (header.n_type == NT_GNU_BUILD_ID && name == StringRef("GNU\0", 4))
      return rest.take_front(header.n_descsz);
    notes = rest.drop_front(std::min(rest.size(), align(header.n_descsz)));
  }
  return {};
}

static StringRef findBuildID(const void *address) {
  std::pair<uintptr_t, StringRef> found(reinterpret_cast<uintptr_t>(address),
                                        "");
  dl_iterate_phdr(
      [](dl_phdr_info *object, size_t, void *data) {
        auto &[wanted, id] = *static_cast<decltype(found) *>(data);
        if (!contains(*object, wanted))
          return 0;
        for (const auto &segment :
             ArrayRef(object->dlpi_phdr, object->dlpi_phnum))
          if (segment.p_type == PT_NOTE && id.empty())
            id = findBuildID(StringRef(reinterpret_cast<const char *>(
                                           object->dlpi_addr + segment.p_vaddr),
                                       segment.p_memsz));
        return 1;
      },
      &found);
  return found.second;
}

#else

static StringRef findBuildID(const void *) { return {}; }

#endif

/// Returns the path, size and time of change of the file with an address; empty
/// if there is no such file.
static std::string describeFile(const void *address) {
#ifndef _WIN32
  Dl_info info;
  sys::fs::file_status status;
  if (!dladdr(address, &info) || sys::fs::status(info.dli_fname, status))
    return "";
  auto changed = status.getLastModificationTime().time_since_epoch().count();
  return (Twine(info.dli_fname) + " " + Twine(status.getSize()) + " " +
          Twine(int64_t(changed)))
      .str();
#else
  return "";
#endif
}

std::string tandem::getBuildIdentity(const void *address) {
  StringRef id = findBuildID(address);
  return id.empty() ? describeFile(address) : toHex(id);
}
