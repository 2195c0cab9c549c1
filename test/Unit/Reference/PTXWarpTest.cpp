//===- PTXWarpTest.cpp - Tests of barriers and shuffles -------------------===//
//
// Part of the Tandem Project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// This file tests barriers and shuffles.
//
//===----------------------------------------------------------------------===//

#include "PTXTestUtils.h"

using namespace tandem::reference;

namespace {

constexpr unsigned kMaxThreads = 96;

/// Runs one block; `%w0` is the thread's index, `%w1` its result. `slots` are
/// 64 words of shared memory, `table` holds constants in global memory.
RunResult runBlock(llvm::StringRef body, unsigned threads) {
  RunResult result;
  std::string text = wrap(("mov.u32 %w0, %tid.x; mul.wide.u32 %d0, %w0, 8; "
                           "add.s64 %d1, %rd21, %d0;\n" +
                           body + "\nst.global.b32 [%d1], %w1;")
                              .str());
  text.insert(text.find(".visible"),
              ".shared .align 8 .b8 slots[256];\n"
              ".global .align 4 .b32 table[3] = {5, -6};\n");
  llvm::Expected<PTXModule> module = PTXModule::parse(text);
  if (!module) {
    result.error = llvm::toString(module.takeError());
    return result;
  }
  result.out.assign(kMaxThreads, 0);
  MemoryMap memory;
  cantFail(memory.addWritable("out", result.out.data(), 8 * kMaxThreads));
  result.error = llvm::toString(
      module->launch("k", {0, reinterpret_cast<uint64_t>(result.out.data())},
                     Dim3(), Dim3{threads, 1, 1}, memory));
  return result;
}

TEST(PTXWarp, ButterflySumsThirtyTwoLanes) {
  std::string body = "mov.b32 %w1, %w0;\n";
  for (const char *distance : {"1", "2", "4", "8", "16"})
    body += std::string("shfl.sync.bfly.b32 %w2|%p1, %w1, ") + distance +
            ", 31, -1;\nadd.s32 %w1, %w1, %w2;\n";
  RunResult result = runBlock(body, 64);
  EXPECT_EQ(result.error, "");
  for (unsigned thread = 0; thread < 64; ++thread)
    EXPECT_EQ(result.out[thread], thread < 32 ? 496u : 496u + 1024) << thread;
}

TEST(PTXWarp, ShuffleModes) {
  auto run = [](llvm::StringRef shuffle) {
    RunResult result = runBlock(
        ("shfl.sync." + shuffle + ", -1;\n@!%p1 add.s32 %w1, %w1, 1000;").str(),
        32);
    EXPECT_EQ(result.error, "");
    return result.out;
  };
  std::vector<uint64_t> up = run("up.b32 %w1|%p1, %w0, 1, 0");
  EXPECT_EQ(up[0], 1000u); // out of range: its own value
  EXPECT_EQ(up[31], 30u);
  std::vector<uint64_t> down = run("down.b32 %w1|%p1, %w0, 2, 31");
  EXPECT_EQ(down[29], 31u);
  EXPECT_EQ(down[30], 1030u);
  std::vector<uint64_t> index = run("idx.b32 %w1|%p1, %w0, 3, 31");
  EXPECT_EQ(index[17], 3u);
  // Segments of eight lanes.
  std::vector<uint64_t> segment = run("idx.b32 %w1|%p1, %w0, 3, 6175");
  EXPECT_EQ(segment[17], 19u);
}

TEST(PTXWarp, BarrierOrdersTheBlock) {
  // Each thread reads what its neighbour in the other warp wrote.
  RunResult result = runBlock(
      "add.s32 %w2, %w0, 7;\nst.global.b32 [%d1+4], %w2;\nbar.sync 0;\n"
      "xor.b32 %w3, %w0, 32;\nmul.wide.u32 %d2, %w3, 8;\n"
      "add.s64 %d3, %rd21, %d2;\nld.global.b32 %w1, [%d3+4];",
      64);
  EXPECT_EQ(result.error, "");
  for (unsigned thread = 0; thread < 64; ++thread)
    EXPECT_EQ(result.out[thread] & 0xFFFFFFFF, (thread ^ 32) + 7);
}

/// Each thread writes its slot and reads that of its neighbour in the other
/// warp, by a base register and by name.
constexpr llvm::StringLiteral kWriteSlot =
    "mov.b64 %d2, slots;\nmul.wide.u32 %d3, %w0, 4;\nadd.s64 %d3, %d2, %d3;\n"
    "add.s32 %w2, %w0, 7;\nst.shared.b32 [%d3], %w2;\n";
constexpr llvm::StringLiteral kReadSlot =
    "xor.b32 %w3, %w0, 32;\nmul.wide.u32 %d4, %w3, 4;\n"
    "add.s64 %d4, %d2, %d4;\nld.shared.b32 %w1, [%d4];\n";

TEST(PTXWarp, SharedMemory) {
  RunResult result =
      runBlock((kWriteSlot + "bar.sync 0;\n" + kReadSlot).str(), 64);
  EXPECT_EQ(result.error, "");
  for (unsigned thread = 0; thread < 64; ++thread)
    EXPECT_EQ(result.out[thread], (thread ^ 32) + 7);
  result = runBlock(
      (kWriteSlot + "bar.sync 0;\nld.shared.b32 %w1, [slots+20];").str(), 64);
  EXPECT_EQ(result.error, "");
  EXPECT_EQ(result.out[63], 12u);
  // A kernel's own variable follows those of the module.
  result = runBlock(".shared .b32 own;\nmov.b64 %d2, own;\n"
                    "mov.b64 {%w1, %w2}, %d2;",
                    1);
  EXPECT_EQ(result.error, "");
  EXPECT_EQ(result.out[0], 256u);
}

TEST(PTXWarp, Constants) {
  RunResult result = runBlock("add.s64 %d0, %d0, table;\n"
                              "ld.global.b32 %w1, [%d0+4];",
                              1);
  EXPECT_EQ(result.error, "");
  EXPECT_EQ(result.out[0], 0xFFFFFFFAu);
  // An entry without a value is zero.
  result = runBlock("ld.global.b32 %w1, [table+8];", 1);
  EXPECT_EQ(result.error, "");
  EXPECT_EQ(result.out[0], 0u);
  EXPECT_NE(runBlock("ld.global.b64 %d1, [table+8];", 1)
                .error.find("'table', has 12 bytes and this is at offset 8"),
            std::string::npos);
  EXPECT_NE(runBlock("st.global.b32 [table], %w0;", 1)
                .error.find("buffer 'table' is read-only"),
            std::string::npos);
}

TEST(PTXWarp, SharedMemoryFaults) {
  auto error = [](llvm::StringRef body, unsigned threads) {
    return runBlock(body, threads).error;
  };
  auto expectRace = [&](const llvm::Twine &body, llvm::StringRef access) {
    std::string message = error(body.str(), 64);
    EXPECT_NE(message.find("shared " + access.str() + " of 4 bytes"),
              std::string::npos)
        << message;
    EXPECT_NE(message.find("no barrier stands in between"), std::string::npos)
        << message;
  };
  expectRace(kWriteSlot + kReadSlot, "store");
  expectRace("st.shared.b32 [slots], %w0;", "store");
  // The barrier before the reads does not order the writes that follow them.
  expectRace(kWriteSlot + "bar.sync 0;\n" + kReadSlot +
                 "st.shared.b32 [%d3], %w1;",
             "load");
  std::string beyond = error("ld.shared.b32 %w1, [slots+256];", 1);
  EXPECT_NE(beyond.find("the block has 256 bytes"), std::string::npos);
  std::string odd = error("ld.shared.b32 %w1, [slots+2];", 1);
  EXPECT_NE(odd.find("not aligned"), std::string::npos);
}

TEST(PTXWarp, Faults) {
  auto error = [](llvm::StringRef body, unsigned threads) {
    return runBlock(body, threads).error;
  };
  std::string diverged = error("setp.lt.u32 %p1, %w0, 5;\n@%p1 bra x;\n"
                               "bar.sync 0;\nbra y;\nx: bar.sync 0;\ny:",
                               64);
  EXPECT_NE(diverged.find("waits for others"), std::string::npos) << diverged;
  std::string partial =
      error("shfl.sync.idx.b32 %w1, %w0, 9, 31, -1;", /*threads=*/8);
  EXPECT_NE(partial.find("reads lane 9"), std::string::npos) << partial;
  std::string mask = error("shfl.sync.idx.b32 %w1, %w0, 0, 31, 255;", 8);
  EXPECT_NE(mask.find("all 32 lanes"), std::string::npos) << mask;
}

} // namespace
