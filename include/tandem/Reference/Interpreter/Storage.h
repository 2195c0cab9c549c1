//===- Storage.h - Storages and their planes --------------------*- C++ -*-===//
//
// Part of the Tandem Project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// This file declares how the reference interpreter reads and writes stored
// tensors: decoding and encoding by docs/Numerics.md, independent of the
// storage attributes' own lowering.
//
//===----------------------------------------------------------------------===//

#ifndef TANDEM_REFERENCE_INTERPRETER_STORAGE_H
#define TANDEM_REFERENCE_INTERPRETER_STORAGE_H

#include "tandem/Reference/Interpreter/Arithmetic.h"
#include "tandem/Reference/Interpreter/Interpreter.h"
#include "tandem/Reference/Interpreter/Values.h"
#include "tandem/Support/LLVM.h"

namespace tandem::reference {

//===----------------------------------------------------------------------===//
// One element
//===----------------------------------------------------------------------===//

using Codes = llvm::SmallVector<uint64_t, 2>;

/// Returns an error if the interpreter does not know a storage.
llvm::Error checkKnown(StorageAttrInterface storage);

/// Returns an error if the storage of a tensor cannot be computed under a
/// policy. A destination may also take f32 under the component policy.
llvm::Error checkPolicy(StorageAttrInterface storage, ComputeAttr compute,
                        RoleAttr role);

/// Returns whether a storage keeps more of an update than its leading
/// component, under the component policy.
bool isCompensated(StorageAttrInterface storage);

/// Returns the number of consecutive elements that share an entry of some plane
/// and must be stored together: 1 for most storages, Group::all for a whole
/// tensor and for the rows or blocks of a matrix.
uint64_t getGroup(StorageAttrInterface storage);

/// Returns the stored value as an f32.
SoftFloat decodeReal(StorageAttrInterface storage,
                     llvm::ArrayRef<uint64_t> planes);
/// The inputs of the rounding of one element.
struct ElementRounding {
  /// The random bits, for a storage that rounds by bits.
  uint16_t random = 0;
  /// Whether a positive value must not become zero.
  bool hasFloor = false;
};

/// Encodes an f32, if `getGroup` is 1.
Codes encodeReal(StorageAttrInterface storage, const SoftFloat &value,
                 ElementRounding rounding);

/// Returns the whole value under the component policy: a component, or those of
/// a compensated storage as it keeps them.
Components decodeComponents(StorageAttrInterface storage,
                            llvm::ArrayRef<uint64_t> planes, Format format);
Codes encodeComponents(StorageAttrInterface storage,
                       llvm::ArrayRef<SoftFloat> components);

/// Returns the result of arithmetic as its storage keeps it: a mixed expansion
/// narrows the trailing component.
Components settle(StorageAttrInterface storage,
                  llvm::ArrayRef<SoftFloat> components);

//===----------------------------------------------------------------------===//
// Whole tensors
//===----------------------------------------------------------------------===//

/// A tensor of a graph or kernel and the planes in which it lies.
struct BoundTensor {
  RoleAttr role;
  StorageAttrInterface storage;
  llvm::SmallVector<Plane> planes;
  /// The data of each of `planes`.
  llvm::SmallVector<PlaneData *> data;
  uint64_t numElements = 0;
  /// The number of elements in a row, with which groups begin anew; that of all
  /// elements in a flat tensor.
  uint64_t columns = 0;
  /// Its position among the tensors of the graph or kernel.
  uint32_t number = 0;

  /// Returns whether the f32 policy stores positive values as more than zero,
  /// as it does in a second moment.
  bool hasFloor() const {
    return role.getMoment() == Moment::second &&
           role.getDomain() == Domain::nonneg;
  }
  /// Returns the bits that decide how an element is rounded in a launch.
  uint16_t drawBits(const MachineState &state, uint64_t element) const;

  /// Return the number of a plane's entries, and the index of an element's
  /// entry.
  uint64_t getNumEntries(const Plane &plane) const;
  uint64_t getEntry(const Plane &plane, uint64_t element) const;
  /// Returns the position of an element's code in its entry, in bits.
  unsigned getShift(const Plane &plane, uint64_t element) const;

  /// Read and write the bits of one element in one plane.
  uint64_t readPlane(unsigned index, uint64_t element) const;
  void writePlane(unsigned index, uint64_t element, uint64_t code) const;

  /// Returns the bits of one element, with zeros for planes that are only
  /// written.
  Codes read(uint64_t element) const;
  void write(uint64_t element, llvm::ArrayRef<uint64_t> codes) const;
  /// Stores f32 values from `element` on, where a group begins. Groups at the
  /// end of a row or matrix may be smaller.
  void writeGroups(const MachineState &state, uint64_t element,
                   llvm::ArrayRef<SoftFloat> values) const;
};

/// Stores what a framework reads of one tensor in another one. Returns an error
/// if a framework computes with no plane of the former.
llvm::Error copyVisible(const BoundTensor &from, const BoundTensor &to,
                        const MachineState &state);

/// Returns the flags that an element raises: bit 0 if it is a gradient's and a
/// float plane of it holds a NaN or an infinity.
uint32_t getFlags(const BoundTensor &tensor, llvm::ArrayRef<uint64_t> codes);

/// The tensors of one launch, all of one size. Flat ones are one row.
struct BoundTensors {
  llvm::SmallVector<BoundTensor> tensors;
  uint64_t numElements = 0;
  uint64_t rows = 1, columns = 0;
};

/// Finds the planes of tensors in a machine's state, or returns an error if one
/// is missing.
llvm::Expected<BoundTensors>
bindTensors(llvm::ArrayRef<RoleAttr> roles,
            llvm::ArrayRef<StorageAttrInterface> storages, MachineState &state);
/// Binds the tensors of a graph of matrices, whose planes have two dimensions.
llvm::Expected<BoundTensors>
bindMatrices(llvm::ArrayRef<RoleAttr> roles,
             llvm::ArrayRef<StorageAttrInterface> storages,
             MachineState &state);

/// Returns an error unless a launch's first element begins a group; the whole
/// tensor's begins at 0. `what` appears in the error.
llvm::Error checkFirst(const MachineState &state, uint64_t group,
                       const llvm::Twine &what);

/// Returns an error unless a scalar role has a value that a launch accepts.
llvm::Error checkScalar(RoleAttr role, const MachineState &state,
                        ComputeAttr compute);

/// Returns the value of a scalar role that `checkScalar` accepted: f64 or i64.
Number getScalar(RoleAttr role, const MachineState &state);

/// Lets the host compute an external step, or returns an error if it cannot.
llvm::Error callExternal(llvm::StringRef name, MachineState &state);

/// Runs a program without phases once before each external step, for the planes
/// that are sent to it, and once more at the end.
llvm::Error
computeExternals(llvm::ArrayRef<RoleAttr> roles, MachineState &state,
                 llvm::function_ref<llvm::Error(MachineState &)> run);

} // namespace tandem::reference

#endif // TANDEM_REFERENCE_INTERPRETER_STORAGE_H
