//===- RunArrays.h - The arrays of a run ------------------------*- C++ -*-===//
//
// Part of the Tandem Project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// This file declares how a run finds, checks and initializes its arrays.
//
//===----------------------------------------------------------------------===//

#ifndef TANDEM_LIB_TARGET_RUN_RUNARRAYS_H
#define TANDEM_LIB_TARGET_RUN_RUNARRAYS_H

#include "tandem/Target/ArrayFile.h"
#include "tandem/Target/Run.h"

namespace tandem {

/// The arrays of one run, by plane. A gradient may have one for each step.
class RunArrays {
public:
  RunArrays(const CompiledKernel &kernel, const RunOptions &options)
      : kernel(kernel), info(*kernel.info), options(options) {}

  /// Reads all inputs, checks that every plane has one array of its type and of
  /// the common size, and creates the missing ones if the options allow that.
  llvm::Error load();

  int64_t getNumElements() const { return rows * columns; }
  /// Returns the number of rows of a matrix, or 1 for other tensors.
  int64_t getRows() const { return rows; }
  int64_t getColumns() const { return columns; }
  /// Returns the memory of each plane in a step, counted from 0.
  std::vector<void *> getPointers(int64_t step);
  /// Returns the array of a plane that is not a gradient's.
  const Array &get(const std::string &plane) const { return arrays.at(plane); }
  /// Returns the arrays that the kernel writes.
  ArrayMap getResults() const;
  /// Returns the metadata of the results' file: graph, strategy, step,
  /// storages.
  ArrayMetadata describeResults(int64_t lastStep) const;
  /// Returns the given step, or else the step after the last one that the
  /// files' states have seen.
  int64_t getFirstStep() const;

private:
  llvm::Error read();
  /// Refuses a file whose metadata say that another strategy has stored it.
  llvm::Error checkOrigin(llvm::StringRef file, const ArrayMap &part,
                          const ArrayMetadata &metadata) const;
  llvm::Error noteStep(llvm::StringRef file, const ArrayMap &part,
                       const ArrayMetadata &metadata);
  llvm::Error checkNames();
  /// Lists the planes of one tensor.
  std::string listPlanesOf(llvm::StringRef role) const;
  const tdm_plane_desc *findRoleOf(llvm::StringRef name) const;
  bool hasAnyPlane(llvm::StringRef role) const;
  llvm::Error checkGradient(const tdm_plane_desc &plane);
  llvm::Error checkShared() const;
  /// Describes a size, as "12 elements" or "3 rows of 4".
  std::string describe(int64_t height, int64_t width) const;
  llvm::Error checkArray(const tdm_plane_desc &plane, const std::string &name);
  bool hasValue(const std::string &role) const;
  llvm::Error checkMissing() const;
  llvm::Error createMissing();
  llvm::Error create(const tdm_plane_desc &plane);
  /// Returns the name of the array of a gradient's plane in a step: NAME, or
  /// NAME.step+1 if each step has its own.
  std::string getGradientName(const tdm_plane_desc &plane, int64_t step) const;
  llvm::Error fail(const std::string &name, const llvm::Twine &problem,
                   const llvm::Twine &remedy) const;

  const CompiledKernel &kernel;
  const tdm_kernel_info &info;
  const RunOptions &options;
  ArrayMap arrays;
  /// The kernel's storage of each tensor, by role.
  std::map<std::string, std::string> storages;
  /// The last step that the states in files have seen, and the file with that
  /// step.
  std::optional<int64_t> lastStep;
  std::string lastStepFile;
  int64_t rows = -1, columns = -1;
  /// The array with the common size, which the other arrays must have.
  std::string sizedBy;
};

/// Returns the type that a plane's elements have in files.
DType getFileType(const tdm_plane_desc &plane);

} // namespace tandem

#endif // TANDEM_LIB_TARGET_RUN_RUNARRAYS_H
