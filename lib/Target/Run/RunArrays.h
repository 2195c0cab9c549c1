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

/// The arrays of one run, by plane and, for gradients, by step.
class RunArrays {
public:
  RunArrays(const CompiledKernel &kernel, const RunOptions &options)
      : kernel(kernel), info(*kernel.info), options(options) {}

  /// Reads all inputs; checks that every plane has one array of its type and
  /// of the common size; creates those that may be created.
  llvm::Error load();

  int64_t getNumElements() const { return rows * columns; }
  /// The shape of a matrix; other tensors are one row.
  int64_t getRows() const { return rows; }
  int64_t getColumns() const { return columns; }
  /// The memory of each plane in step number `step`, counted from 0.
  std::vector<void *> getPointers(int64_t step);
  /// The array of a plane other than a gradient.
  const Array &get(const std::string &plane) const { return arrays.at(plane); }
  /// The arrays that the kernel writes.
  ArrayMap getResults() const;
  /// The metadata of the results' file: graph, strategy, step, storages.
  ArrayMetadata describeResults(int64_t lastStep) const;
  /// The step that is given, else the one after that of the files of states.
  int64_t getFirstStep() const;

private:
  llvm::Error read();
  /// Refuses what another strategy has stored, as far as the file says so.
  llvm::Error checkOrigin(llvm::StringRef file, const ArrayMap &part,
                          const ArrayMetadata &metadata) const;
  llvm::Error noteStep(llvm::StringRef file, const ArrayMap &part,
                       const ArrayMetadata &metadata);
  llvm::Error checkNames();
  /// The planes of one tensor, listed.
  std::string listPlanesOf(llvm::StringRef role) const;
  const tdm_plane_desc *findRoleOf(llvm::StringRef name) const;
  bool hasAnyPlane(llvm::StringRef role) const;
  llvm::Error checkGradient(const tdm_plane_desc &plane);
  llvm::Error checkShared() const;
  /// "12 elements", "3 rows of 4".
  std::string describe(int64_t height, int64_t width) const;
  llvm::Error checkArray(const tdm_plane_desc &plane, const std::string &name);
  bool hasValue(const std::string &role) const;
  llvm::Error checkMissing() const;
  llvm::Error createMissing();
  llvm::Error create(const tdm_plane_desc &plane);
  /// The array of a gradient's plane in a step: NAME or NAME.step+1.
  std::string getGradientName(const tdm_plane_desc &plane, int64_t step) const;
  llvm::Error fail(const std::string &name, const llvm::Twine &problem,
                   const llvm::Twine &remedy) const;

  const CompiledKernel &kernel;
  const tdm_kernel_info &info;
  const RunOptions &options;
  ArrayMap arrays;
  /// The kernel's storage of each tensor, by the tensor's role.
  std::map<std::string, std::string> storages;
  /// The last step that states in files have seen, and the file that says so.
  std::optional<int64_t> lastStep;
  std::string lastStepFile;
  int64_t rows = -1, columns = -1;
  /// The array that the others' sizes are compared with.
  std::string sizedBy;
};

/// The type that a plane's elements have in files.
DType getFileType(const tdm_plane_desc &plane);

} // namespace tandem

#endif // TANDEM_LIB_TARGET_RUN_RUNARRAYS_H
