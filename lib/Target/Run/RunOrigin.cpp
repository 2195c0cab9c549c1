//===- RunOrigin.cpp - What files say of a state --------------------------===//
//
// Part of the Tandem Project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// This file implements the metadata of a .safetensors file that describe the
// state in it: the graph, the strategy, its storages and the last step.
//
//===----------------------------------------------------------------------===//

#include "RunArrays.h"

using namespace tandem;
using llvm::StringRef;
using llvm::Twine;

static constexpr StringRef storagePrefix = "tandem.storage.";

/// The version of the meaning of a state's bytes. In version 1, which files do
/// not record, code 1 of the signed dynamic code and code 254 of the unsigned
/// one were numbers.
static constexpr int64_t stateVersion = 2;

static std::string lookup(const ArrayMetadata &metadata,
                          const std::string &key) {
  auto found = metadata.find(key);
  return found == metadata.end() ? "" : found->second;
}

ArrayMetadata RunArrays::describeResults(int64_t lastStep) const {
  ArrayMetadata metadata = {{"tandem.graph", info.graph},
                            {"tandem.strategy", info.strategy},
                            {"tandem.version", std::to_string(stateVersion)},
                            {"tandem.step", std::to_string(lastStep)}};
  for (const tdm_plane_desc &plane : getPlanes(info))
    if (isWritten(plane))
      metadata[(storagePrefix + plane.role).str()] = storages.at(plane.role);
  return metadata;
}

/// Refuses a plane whose bytes had another meaning when they were written.
static llvm::Error checkVersion(StringRef file, StringRef plane,
                                StringRef storage,
                                const ArrayMetadata &metadata) {
  std::string text = lookup(metadata, "tandem.version");
  int64_t version = 1;
  if (!text.empty() &&
      (StringRef(text).getAsInteger(10, version) || version > stateVersion))
    return makeArrayError(file, plane,
                          "is of version '" + text +
                              "' of states, and this program knows those up to "
                              "version " +
                              Twine(stateVersion),
                          "read it with a later Tandem");
  if (version >= stateVersion || !storage.contains("#scaled.dynamic<"))
    return llvm::Error::success();
  return makeArrayError(
      file, plane,
      "is of version 1 of states, in which code 1 of a signed dynamic code and "
      "code 254 of an unsigned one are numbers; now they are NaN",
      "replace them by 0 and 255 and write \"tandem.version\": \"2\" in the "
      "file's metadata");
}

llvm::Error RunArrays::checkOrigin(StringRef file, const ArrayMap &part,
                                   const ArrayMetadata &metadata) const {
  for (const tdm_plane_desc &plane : getPlanes(info)) {
    std::string theirs = lookup(metadata, (storagePrefix + plane.role).str());
    const std::string &ours = storages.at(plane.role);
    if (theirs.empty() || !part.count(plane.name))
      continue;
    if (auto error = checkVersion(file, plane.name, theirs, metadata))
      return error;
    if (theirs == ours)
      continue;
    std::string strategy = lookup(metadata, "tandem.strategy");
    return makeArrayError(
        file, plane.name,
        "was stored under " +
            (strategy.empty() ? Twine("another strategy") : Twine(strategy)) +
            " as " + theirs + ", and " + getTitle(info) + " keeps '" +
            plane.role + "' as " + ours,
        "convert the file's arrays with tandem.convert_state");
  }
  return llvm::Error::success();
}

llvm::Error RunArrays::noteStep(StringRef file, const ArrayMap &part,
                                const ArrayMetadata &metadata) {
  bool hasState =
      llvm::any_of(getPlanes(info), [&](const tdm_plane_desc &plane) {
        return plane.kind == TDM_ROLE_STATE && part.count(plane.name);
      });
  std::string text = lookup(metadata, "tandem.step");
  if (options.firstStep || !hasState || text.empty())
    return llvm::Error::success();
  int64_t step;
  if (StringRef(text).getAsInteger(10, step) || step < 0 || step >> 62)
    return makeArrayError(file, "",
                          "its tandem.step '" + text + "' is not a step",
                          "give --step");
  if (lastStep && *lastStep != step)
    return makeArrayError(file, "",
                          "its states have seen step " + text + ", those of '" +
                              lastStepFile + "' step " + Twine(*lastStep),
                          "give --step");
  lastStep = step;
  lastStepFile = file.str();
  return llvm::Error::success();
}

int64_t RunArrays::getFirstStep() const {
  return options.firstStep.value_or(lastStep ? *lastStep + 1 : 1);
}
