// RUN: tandem-opt %s -convert-tandem-to-nvvm -canonicalize | FileCheck %s

#p = #tandem.role<param "p">
#g = #tandem.role<grad "g">
!four = !tandem.stored<tensor<?xf32>, #tandem.coded<#scaled.linear<bits = 4>>>

// A thread's eight codes are one word. Their lower and upper halves are brought into order by
// permutations, and back into one word by another.
// CHECK-LABEL: llvm.func @tandem_copy(
// CHECK:         llvm.load %{{.+}} {alignment = 4 : i64} : !llvm.ptr<1> -> vector<4xi8>
// CHECK:         nvvm.prmt
// CHECK:         nvvm.prmt
// CHECK:         nvvm.prmt
// CHECK:         llvm.store %{{.+}}, %{{.+}} {alignment = 4 : i64} : vector<4xi8>, !llvm.ptr<1>
tandem.step @copy compute(<f32, f32>) tensors [#p, #g] scalars [] prologue {
  tandem.yield
} launches {
  tandem.launch main width(8) body {
  ^bb0(%p: !four, %g: !four):
    %x = tandem.load_plane %g[0] : !four -> vector<8xi8>
    tandem.store_plane %x, %p[0] : vector<8xi8>, !four
    tandem.yield
  }
}
