//===- ProgramInterface.td - Interface of programs ---------*- tablegen -*-===//
//
// Part of the Tandem Project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef TANDEM_DIALECT_TANDEM_IR_PROGRAMINTERFACE_TD
#define TANDEM_DIALECT_TANDEM_IR_PROGRAMINTERFACE_TD

include "mlir/IR/OpBase.td"

def Tandem_ProgramOpInterface : OpInterface<"ProgramOpInterface"> {
  let cppNamespace = "::tandem";
  let description = [{
    An operation whose body computes the elements of stored tensors: a
    `tandem.kernel`, or a `tandem.launch` of a `tandem.step`. The arguments of the
    body are the stored tensors and then the uniform values, which a prologue yields.
  }];
  let methods = [
    InterfaceMethod<"Returns the policy under which the body is computed.",
      "::tandem::ComputeAttr", "getCompute">,
    InterfaceMethod<"Returns the roles of the stored tensors.",
      "::mlir::ArrayAttr", "getTensorRoles">,
    InterfaceMethod<"Returns the roles of the prologue's arguments.",
      "::mlir::ArrayAttr", "getScalarRoles">,
    InterfaceMethod<"Returns the block that computes the uniform values.",
      "::mlir::Block &", "getPrologueBlock">,
    InterfaceMethod<"Returns the block that computes one element, or `width` of them.",
      "::mlir::Block &", "getBodyBlock">,
    InterfaceMethod<"Returns the unit that the body runs once for.",
      "::tandem::Granularity", "getPer", (ins), "",
      "return ::tandem::Granularity::element;">,
    InterfaceMethod<"Returns the number of consecutive elements that the body computes at once.",
      "uint64_t", "getWidth", (ins), "", "return 1;">,
  ];
  let extraSharedClassDeclaration = [{
    unsigned getNumTensors() { return $_op.getTensorRoles().size(); }
    /// Return the role and the type of a tensor.
    ::tandem::RoleAttr getTensorRole(unsigned tensor) {
      return ::llvm::cast<::tandem::RoleAttr>($_op.getTensorRoles()[tensor]);
    }
    ::tandem::StoredType getTensorType(unsigned tensor) {
      return ::llvm::cast<::tandem::StoredType>(
          $_op.getBodyBlock().getArgument(tensor).getType());
    }
    /// Returns whether the tensors have rows and columns. Otherwise they are flat.
    bool isMatrix() {
      return ::tandem::detail::isMatrix($_op.getTensorRoles(), $_op.getBodyBlock());
    }
    /// Returns the position of the tensor's first plane among all planes.
    unsigned getFirstPlane(unsigned tensor) {
      unsigned plane = 0;
      for (unsigned i = 0; i < tensor; ++i)
        plane += getTensorType(i).getStorage().getPlanes().size();
      return plane;
    }
    /// Returns the body's uniform arguments.
    ::mlir::Block::BlockArgListType getUniforms() {
      return $_op.getBodyBlock().getArguments().drop_front(getNumTensors());
    }
    /// Returns the number of sums that the body measures, after -tandem-lower-storage.
    unsigned getNumMetrics() {
      return ::tandem::detail::getNumMetrics($_op.getBodyBlock());
    }
    /// Returns the number of rows, and of columns, of the blocks that storages have
    /// entries for, or 0 without blocks.
    uint64_t getBlockSize() {
      return ::tandem::detail::getBlockSize($_op.getBodyBlock());
    }
    /// Returns the number of consecutive elements, rows, columns or blocks, whichever
    /// the body runs over, that share an entry of a tensor's plane: a power of two,
    /// Group::all, or 0 if the body cannot reach the entry.
    int64_t getElementsPerEntry(unsigned tensor, const ::tandem::Plane &plane) {
      return ::tandem::detail::getElementsPerEntry(
          getTensorRole(tensor), plane, $_op.getPer());
    }
  }];
}

#endif // TANDEM_DIALECT_TANDEM_IR_PROGRAMINTERFACE_TD
