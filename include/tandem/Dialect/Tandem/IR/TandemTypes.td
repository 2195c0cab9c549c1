//===- TandemTypes.td - Stored tensors --------------------*- tablegen -*-===//
//
// Part of the Tandem Project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef TANDEM_DIALECT_TANDEM_IR_TANDEMTYPES_TD
#define TANDEM_DIALECT_TANDEM_IR_TANDEMTYPES_TD

include "mlir/IR/AttrTypeBase.td"
include "tandem/Dialect/Tandem/IR/TandemAttrs.td"

def Tandem_StoredType : TypeDef<Tandem_Dialect, "Stored"> {
  let mnemonic = "stored";
  let summary = "a logical tensor and the storage it lies in";
  let description = [{
    The type appears only where values are loaded or stored: at the boundaries of a
    graph and as the operands of a kernel. Arithmetic stays on plain tensors and
    scalars.

    ```mlir
    !tandem.stored<tensor<?xf32>, #tandem.expansion<bf16 x 2>>
    ```

    Constraint: (C1) the logical tensor has f32 elements (f32 stands for a real
    number).
  }];
  let parameters = (ins "RankedTensorType":$logical, "StorageAttrInterface":$storage);
  let assemblyFormat = "`<` $logical `,` $storage `>`";
  let genVerifyDecl = 1;
}

#endif // TANDEM_DIALECT_TANDEM_IR_TANDEMTYPES_TD
