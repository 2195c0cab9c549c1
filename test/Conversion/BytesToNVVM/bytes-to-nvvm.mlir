// RUN: tandem-opt %s -convert-bytes-to-nvvm -canonicalize -cse | FileCheck %s

// Byte 3 of two words twice, then the two pairs.
// CHECK-LABEL: func.func @bytes(
// CHECK-SAME:      %[[X:.+]]: vector<4xi32>)
// CHECK-DAG:     %[[UPPER:.+]] = arith.constant 115 : i32
// CHECK-DAG:     %[[LOWER:.+]] = arith.constant 21520 : i32
// CHECK-DAG:     %[[X0:.+]] = vector.extract %[[X]][0]
// CHECK-DAG:     %[[X1:.+]] = vector.extract %[[X]][1]
// CHECK:         %[[FIRST:.+]] = nvvm.prmt <default> %[[UPPER]], %[[X0]], %[[X1]] : i32
// CHECK:         %[[SECOND:.+]] = nvvm.prmt <default> %[[UPPER]]
// CHECK:         %[[WORD:.+]] = nvvm.prmt <default> %[[LOWER]], %[[FIRST]], %[[SECOND]] : i32
// CHECK:         %[[WORDS:.+]] = vector.{{.+}} %[[WORD]] : {{.*}}vector<1xi32>
// CHECK:         vector.bitcast %[[WORDS]] : vector<1xi32> to vector<4xi8>
func.func @bytes(%x: vector<4xi32>) -> vector<4xi8> {
  %c24 = arith.constant dense<24> : vector<4xi32>
  %upper = arith.shrui %x, %c24 : vector<4xi32>
  %y = arith.trunci %upper : vector<4xi32> to vector<4xi8>
  return %y : vector<4xi8>
}

// A shift of either kind by whole bytes is a choice of byte 2, and truncation one of byte 0.
// CHECK-LABEL: func.func @middle(
// CHECK-SAME:      %[[X:.+]]: vector<4xi32>)
// CHECK-DAG:     %[[MIDDLE:.+]] = arith.constant 98 : i32
// CHECK-DAG:     %[[X0:.+]] = vector.extract %[[X]][0]
// CHECK-DAG:     %[[X1:.+]] = vector.extract %[[X]][1]
// CHECK:         nvvm.prmt <default> %[[MIDDLE]], %[[X0]], %[[X1]] : i32
func.func @middle(%x: vector<4xi32>) -> vector<4xi8> {
  %c16 = arith.constant dense<16> : vector<4xi32>
  %middle = arith.shrsi %x, %c16 : vector<4xi32>
  %y = arith.trunci %middle : vector<4xi32> to vector<4xi8>
  return %y : vector<4xi8>
}

// CHECK-LABEL: func.func @lowest(
// CHECK-DAG:     %[[LOWEST:.+]] = arith.constant 64 : i32
// CHECK:         nvvm.prmt <default> %[[LOWEST]]
func.func @lowest(%x: vector<4xi32>) -> vector<4xi8> {
  %y = arith.trunci %x : vector<4xi32> to vector<4xi8>
  return %y : vector<4xi8>
}

// A shift by other amounts stays: parts of its result are packed.
// CHECK-LABEL: func.func @unaligned(
// CHECK:         %[[SHIFTED:.+]] = arith.shrui
// CHECK:         vector.extract %[[SHIFTED]][0]
func.func @unaligned(%x: vector<4xi32>) -> vector<4xi8> {
  %c20 = arith.constant dense<20> : vector<4xi32>
  %shifted = arith.shrui %x, %c20 : vector<4xi32>
  %y = arith.trunci %shifted : vector<4xi32> to vector<4xi8>
  return %y : vector<4xi8>
}

// A constant that takes the place of some is moved up in the place of all others' moving down.
// CHECK-LABEL: func.func @halves(
// CHECK-SAME:      %[[X:.+]]: vector<2xi32>, %[[IS_NAN:.+]]: vector<2xi1>)
// CHECK-DAG:     %[[NAN:.+]] = arith.constant dense<2147418112> : vector<2xi32>
// CHECK-DAG:     %[[UPPER:.+]] = arith.constant 30258 : i32
// CHECK:         %[[CHOSEN:.+]] = arith.select %[[IS_NAN]], %[[NAN]], %[[X]]
// CHECK-DAG:     %[[X0:.+]] = vector.extract %[[CHOSEN]][0]
// CHECK-DAG:     %[[X1:.+]] = vector.extract %[[CHOSEN]][1]
// CHECK:         nvvm.prmt <default> %[[UPPER]], %[[X0]], %[[X1]] : i32
func.func @halves(%x: vector<2xi32>, %is_nan: vector<2xi1>) -> vector<2xi16> {
  %c16 = arith.constant dense<16> : vector<2xi32>
  %nan = arith.constant dense<0x7FFF> : vector<2xi32>
  %upper = arith.shrui %x, %c16 : vector<2xi32>
  %chosen = arith.select %is_nan, %nan, %upper : vector<2xi1>, vector<2xi32>
  %y = arith.trunci %chosen : vector<2xi32> to vector<2xi16>
  return %y : vector<2xi16>
}

// CHECK-LABEL: func.func @moved(
// CHECK-SAME:      %[[X:.+]]: vector<2xi32>, %{{.+}}: i1)
// CHECK-DAG:     %[[BYTES:.+]] = arith.select %{{.+}}, %{{.+}}, %{{.+}} : i32
// CHECK-DAG:     %[[SELECTOR:.+]] = arith.constant 29476 : i32
// CHECK-DAG:     %[[X0:.+]] = vector.extract %[[X]][0]
// CHECK:         nvvm.prmt <default> %[[SELECTOR]], %[[X0]], %[[BYTES]] : i32
func.func @moved(%x: vector<2xi32>, %is_finite: i1) -> vector<2xi32> {
  %c8 = arith.constant dense<8> : vector<2xi32>
  %c16 = arith.constant dense<16> : vector<2xi32>
  %some = arith.constant 0xC00000FF : i32
  %others = arith.constant 0xC0000000 : i32
  %byte = arith.select %is_finite, %some, %others : i32
  %bytes = vector.broadcast %byte : i32 to vector<2xi32>
  %upper = arith.shrui %x, %c16 : vector<2xi32>
  %moved = arith.shli %upper, %c8 : vector<2xi32>
  %y = arith.ori %moved, %bytes : vector<2xi32>
  return %y : vector<2xi32>
}

// CHECK-LABEL: func.func @below_constant(
// CHECK-SAME:      %[[X:.+]]: vector<2xi32>)
// CHECK-DAG:     %[[SELECTOR:.+]] = arith.constant 30258 : i32
// CHECK-DAG:     %[[UPPER:.+]] = arith.constant -1421869056 : i32
// CHECK-DAG:     %[[X0:.+]] = vector.extract %[[X]][0]
// CHECK:         nvvm.prmt <default> %[[SELECTOR]], %[[X0]], %[[UPPER]] : i32
func.func @below_constant(%x: vector<2xi32>) -> vector<2xi32> {
  %c16 = arith.constant dense<16> : vector<2xi32>
  %constant = arith.constant dense<0xAB400000> : vector<2xi32>
  %lower = arith.shrui %x, %c16 : vector<2xi32>
  %y = arith.ori %lower, %constant : vector<2xi32>
  return %y : vector<2xi32>
}

// The element that comes first is the second operand: the lower half.
// CHECK-LABEL: func.func @pairs(
// CHECK-SAME:      %[[X:.+]]: vector<2xf32>)
// CHECK-DAG:     %[[X0:.+]] = vector.extract %[[X]][0]
// CHECK-DAG:     %[[X1:.+]] = vector.extract %[[X]][1]
// CHECK:         nvvm.convert.f32x2.to.bf16x2 %[[X1]], %[[X0]] {rnd = #nvvm.fp_rnd_mode<rn>} : vector<2xbf16>
func.func @pairs(%x: vector<2xf32>) -> vector<2xbf16> {
  %y = arith.truncf %x : vector<2xf32> to vector<2xbf16>
  return %y : vector<2xbf16>
}

// Elements that do not fill words stay, and so does an upper half among bytes that may be set.
// CHECK-LABEL: func.func @others(
// CHECK-NOT:     nvvm
// CHECK:         return
func.func @others(%x: vector<2xi32>, %y: vector<4xi32>, %z: i32)
    -> (vector<2xi8>, vector<4xi32>, i16) {
  %c24 = arith.constant dense<24> : vector<2xi32>
  %c16 = arith.constant dense<16> : vector<4xi32>
  %c8 = arith.constant dense<8> : vector<4xi32>
  %among = arith.constant dense<0xFFFF> : vector<4xi32>
  %sixteen = arith.constant 16 : i32
  %0 = arith.shrui %x, %c24 : vector<2xi32>
  %1 = arith.trunci %0 : vector<2xi32> to vector<2xi8>
  %2 = arith.shrui %y, %c16 : vector<4xi32>
  %4 = arith.shli %2, %c8 : vector<4xi32>
  %5 = arith.ori %4, %among : vector<4xi32>
  %6 = arith.shrui %z, %sixteen : i32
  %7 = arith.trunci %6 : i32 to i16
  return %1, %5, %7 : vector<2xi8>, vector<4xi32>, i16
}
