//===- StorageInterface.td - Interface of storages ---------*- tablegen -*-===//
//
// Part of the Tandem Project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef TANDEM_DIALECT_TANDEM_IR_STORAGEINTERFACE_TD
#define TANDEM_DIALECT_TANDEM_IR_STORAGEINTERFACE_TD

include "mlir/IR/OpBase.td"

def Tandem_StorageInterface : AttrInterface<"StorageAttrInterface"> {
  let cppNamespace = "::tandem";
  let description = [{
    A storage says how one logical tensor lies in memory between kernels: its planes,
    and how a value is decoded from them and encoded into them. Bytes per parameter,
    checkpoints, the reference interpreter's data and the docs derive from it. A new
    format is one attribute that implements this interface.

    A storage that a strategy may use under the `component` policy also says
    what its *whole* value is there (a component, or an expansion), and how its
    own accumulate and decay are computed (Collage, section 4.2).
  }];
  let methods = [
    InterfaceMethod<"Returns the planes, in the order of the tensor table.",
      "::llvm::SmallVector<::tandem::Plane>", "getPlanes">,
    InterfaceMethod<"Returns the index of the plane that a framework reads as the value, if any.",
      "std::optional<unsigned>", "getVisiblePlane">,
    InterfaceMethod<"Returns how a number between two stored ones becomes one of them.",
      "::tandem::RoundingMode", "getRounding", (ins), [{}], [{
        return ::tandem::RoundingMode::nearest;
      }]>,
    InterfaceMethod<[{Returns the type that a value has inside a kernel of a policy: f32
      under the f32 policy; a component or an expansion of the policy's format
      under the component policy; null if the storage does not work under the
      policy.}],
      "::mlir::Type", "getValueType", (ins "const ::tandem::ComputeAttr &":$compute)>,
    InterfaceMethod<[{Decodes plane values into a value of `type`, which is f32 or
      `getValueType`'s.}],
      "::mlir::Value", "decode", (ins "::mlir::OpBuilder &":$builder,
        "::mlir::Location":$loc, "::mlir::ValueRange":$planes, "::mlir::Type":$type)>,
    InterfaceMethod<[{Encodes a value (of `getValueType`'s type) into one integer
      of the plane's bits per plane, null for planes that are not written; a history
      gets its newest value.}],
      "::llvm::SmallVector<::mlir::Value>", "encode", (ins "::mlir::OpBuilder &":$builder,
        "::mlir::Location":$loc, "::mlir::Value":$value,
        "const ::tandem::EncodeInputs &":$inputs)>,
    InterfaceMethod<[{Returns whether an element was encoded as the largest magnitude there
      is, an i1 made from the results of `encode`; null for storages without codes.}],
      "::mlir::Value", "isSaturated", (ins "::mlir::OpBuilder &":$builder,
        "::mlir::Location":$loc, "::mlir::ValueRange":$encoded), [{}], [{ return {}; }]>,
    InterfaceMethod<"Returns the f64 numbers whose sum is the stored value, from plane values.",
      "::llvm::SmallVector<::mlir::Value>", "getParts", (ins "::mlir::OpBuilder &":$builder,
        "::mlir::Location":$loc, "::mlir::ValueRange":$planes), [{}], [{
        ::tandem::SequenceBuilder b(builder, loc);
        ::mlir::Value value = $_attr.decode(builder, loc, planes, builder.getF32Type());
        return ::llvm::SmallVector<::mlir::Value>{b.convert(value, builder.getF64Type())};
      }]>,
    InterfaceMethod<"Returns whole + addend, as the storage keeps it.",
      "::mlir::Value", "accumulate", (ins "::mlir::OpBuilder &":$builder,
        "::mlir::Location":$loc, "::mlir::Value":$whole, "::mlir::Value":$addend), [{}], [{
        return ::tandem::SequenceBuilder(builder, loc).add(whole, addend);
      }]>,
    InterfaceMethod<[{Returns whole * factor, as the storage keeps it. The factor is
      available as an f32 scalar and as an expansion split from f64; a storage
      asks for the one it needs.}],
      "::mlir::Value", "decay", (ins "::mlir::OpBuilder &":$builder,
        "::mlir::Location":$loc, "::mlir::Value":$whole,
        "const ::tandem::UniformFactor &":$factor), [{}], [{
        return ::tandem::SequenceBuilder(builder, loc).mul(whole, factor.scalar());
      }]>,
    InterfaceMethod<[{Returns the storage that a conversion writes in place of this one: the same,
      but rounded to nearest if this one rounds by random bits, which depend on the
      step.}],
      "::tandem::StorageAttrInterface", "getNearest", (ins), [{}], [{
        return $_attr;
      }]>,
    InterfaceMethod<[{Returns the format and the number of planes if the stored value is their
      sum and there are no other planes.}],
      "std::optional<::tandem::PlaneSum>", "getPlaneSum", (ins), [{}], [{
        return std::nullopt;
      }]>,
    InterfaceMethod<[{Returns the storage of an average of this one's values over many steps, if
      no rule of the strategy gives another: it keeps changes far below half a unit in the last
      place, and has no copy for other readers.}],
      "::tandem::StorageAttrInterface", "getAverageStorage",
      (ins "const ::tandem::ComputeAttr &":$compute), [{}], [{
        return $_attr;
      }]>,
    InterfaceMethod<[{Returns a storage that works under the f32 policy and decodes to the same
      f32. Its planes are this storage's, or the first of them.}],
      "::tandem::StorageAttrInterface", "getF32Equivalent", (ins), [{}], [{
        return $_attr;
      }]>,
    InterfaceMethod<[{Returns the same storage, but with each scale that would be given computed
      from the values, since new memory has none yet.}],
      "::tandem::StorageAttrInterface", "withFreshScales", (ins), [{}], [{
        return $_attr;
      }]>,
    InterfaceMethod<[{Returns the same codes under scales that are given, so that tensors can
      share them; null unless the storage has codes under f32 scales that do not depend on the
      smallest magnitude, and no transposed copy.}],
      "::tandem::StorageAttrInterface", "withGivenScales", (ins), [{}], [{
        return {};
      }]>,
    InterfaceMethod<[{Returns the same storage without the planes that only the next store
      reads.}],
      "::tandem::StorageAttrInterface", "withoutHistory", (ins), [{}], [{
        return $_attr;
      }]>,
  ];
}

#endif // TANDEM_DIALECT_TANDEM_IR_STORAGEINTERFACE_TD
