//===- PTXCheck.cpp - Checks of emitted PTX -------------------------------===//
//
// Part of the Tandem Project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// This file implements the comparison of PTX with the arithmetic of the kernel
// that it was compiled from.
//
//===----------------------------------------------------------------------===//

#include "tandem/Target/PTX/PTXCheck.h"
#include "ForbiddenIdioms.h"
#include "PTXInstructions.h"
#include "tandem/Conversion/FloatCodesToNVVM/Chip.h"
#include "tandem/Conversion/LaunchABI.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/ADT/StringSwitch.h"

using namespace tandem;
using llvm::StringRef;
using llvm::Twine;

/// The maximum number of differences in one message.
static constexpr unsigned maxProblems = 12;

static constexpr llvm::StringLiteral opNames[] = {
    "add", "sub", "mul", "fma", "div", "sqrt", "round to", "read"};
static constexpr llvm::StringLiteral formatNames[] = {"e4m3", "e5m2", "bf16",
                                                      "f16",  "f32",  "f64"};

namespace {
/// A format, and the number of its values that an instruction computes.
struct PackedFormat {
  RoundingFormat format;
  int64_t lanes;
};
} // namespace

static std::optional<PackedFormat> parseFormat(StringRef part) {
  int64_t lanes = part.consume_back("x2") ? 2 : 1;
  const auto *name = llvm::find(formatNames, part);
  if (name == std::end(formatNames))
    return std::nullopt;
  return PackedFormat{RoundingFormat(name - std::begin(formatNames)), lanes};
}

static unsigned getBits(RoundingFormat format) {
  switch (format) {
  case RoundingFormat::e4m3:
  case RoundingFormat::e5m2:
    return 8;
  case RoundingFormat::bf16:
  case RoundingFormat::f16:
    return 16;
  case RoundingFormat::f32:
    return 32;
  case RoundingFormat::f64:
    return 64;
  }
  llvm_unreachable("every format is listed");
}

/// Returns whether a conversion is one from f32 to 8-bit floats, which PTX has
/// with saturation only.
static bool isToFloat8(llvm::ArrayRef<StringRef> parts) {
  if (parts.size() < 3 || parts.front() != "cvt" || parts.back() != "f32")
    return false;
  std::optional<PackedFormat> target = parseFormat(parts[parts.size() - 2]);
  return target && getBits(target->format) == 8;
}

static std::optional<RoundingOp> parseOp(StringRef head) {
  return llvm::StringSwitch<std::optional<RoundingOp>>(head)
      .Case("add", RoundingOp::add)
      .Case("sub", RoundingOp::sub)
      .Case("mul", RoundingOp::mul)
      .Cases({"fma", "mad"}, RoundingOp::fma)
      .Cases({"div", "rcp"}, RoundingOp::div)
      .Case("sqrt", RoundingOp::sqrt)
      .Default(std::nullopt);
}

/// Returns whether instructions of this name only move, compare or select
/// floats, or change a sign.
static bool isExact(StringRef head) {
  return llvm::StringSwitch<bool>(head)
      .Cases({"abs", "neg", "copysign", "min", "max", "setp", "set"}, true)
      .Cases({"selp", "slct", "testp", "mov", "ld", "st"}, true)
      .Default(false);
}

/// Returns whether a part of a mnemonic is a float type, including those that
/// Tandem does not compute in.
static bool isFloatType(StringRef part) {
  return parseFormat(part) || part.starts_with("tf32") ||
         (part.size() > 3 && part.front() == 'e' && llvm::isDigit(part[1]) &&
          part[2] == 'm') ||
         part.starts_with("ue8m0");
}

namespace {
/// Reads the instructions of one entry, counts those that round, and records
/// problems: instructions that no kernel may contain.
class EntryReader {
public:
  /// The occurrences of an operation: instructions, and how many values each
  /// computes.
  using Occurrences = std::vector<std::pair<const PTXInstruction *, int64_t>>;

  EntryReader(const PTXFunction &entry, bool hasBF16Arithmetic) : entry(entry) {
    if (!hasBF16Arithmetic)
      constants.emplace(entry);
  }

  void run() {
    for (const PTXInstruction &instruction : entry.instructions)
      read(instruction);
  }

  const Occurrences &get(RoundingOp op, RoundingFormat format) const {
    return occurrences[unsigned(op)][unsigned(format)];
  }
  std::vector<std::string> takeProblems() { return std::move(problems); }

private:
  void read(const PTXInstruction &instruction);
  void readConversion(const PTXInstruction &instruction,
                      llvm::ArrayRef<StringRef> parts);
  /// Returns whether a modifier changes results, and records that as a problem.
  bool hasForbiddenModifier(const PTXInstruction &instruction,
                            llvm::ArrayRef<StringRef> parts);
  void requireNearest(const PTXInstruction &instruction,
                      llvm::ArrayRef<StringRef> parts);
  RoundingOp classifyFMA(const PTXInstruction &instruction,
                         PackedFormat format) const;
  bool isConstant(StringRef operand, PackedFormat format, uint64_t bits) const;
  void count(const PTXInstruction &instruction, RoundingOp op,
             PackedFormat format) {
    occurrences[unsigned(op)][unsigned(format.format)].push_back(
        {&instruction, format.lanes});
  }
  void note(const PTXInstruction &instruction, const Twine &problem) {
    problems.push_back(("line " + Twine(instruction.line) + ": '" +
                        instruction.text + "' " + problem)
                           .str());
  }

  const PTXFunction &entry;
  /// The constants of a chip whose bf16 additions and products are fused
  /// operations with constants; none on other chips.
  std::optional<PTXConstants> constants;
  Occurrences occurrences[RoundingCounts::numOps][RoundingCounts::numFormats];
  std::vector<std::string> problems;
};
} // namespace

void EntryReader::read(const PTXInstruction &instruction) {
  if (instruction.mnemonic.starts_with("call"))
    return note(instruction, "calls a function, whose arithmetic is unknown");
  auto parts = instruction.getParts();
  if (llvm::none_of(parts, isFloatType))
    return;
  if (hasForbiddenModifier(instruction, parts))
    return;
  if (parts.front() == "cvt")
    return readConversion(instruction, parts);
  if (isExact(parts.front()))
    return;
  std::optional<RoundingOp> op = parseOp(parts.front());
  std::optional<PackedFormat> format = parseFormat(parts.back());
  // A form that reads 16-bit floats rounds to the type before their type.
  if (parts.size() > 2)
    if (auto computed = parseFormat(parts[parts.size() - 2]);
        format && computed)
      format = computed;
  if (!op || !format)
    return note(instruction, "is not an instruction that kernels are made of");
  requireNearest(instruction, parts);
  if (op == RoundingOp::fma)
    op = classifyFMA(instruction, *format);
  count(instruction, *op, *format);
}

bool EntryReader::hasForbiddenModifier(const PTXInstruction &instruction,
                                       llvm::ArrayRef<StringRef> parts) {
  for (StringRef part : parts.drop_front()) {
    StringRef effect =
        llvm::StringSwitch<StringRef>(part)
            .Case("ftz", "flushes subnormals (.ftz)")
            .Case("approx", "approximates (.approx)")
            .Case("full", "approximates (.full)")
            .Case("sat", "saturates")
            .Case("satfinite", isToFloat8(parts) ? "" : "saturates")
            .Case("relu", "drops negative values (.relu)")
            .Default("");
    if (effect.empty())
      continue;
    note(instruction, effect);
    return true;
  }
  return false;
}

void EntryReader::requireNearest(const PTXInstruction &instruction,
                                 llvm::ArrayRef<StringRef> parts) {
  if (!llvm::is_contained(parts, "rn"))
    note(instruction, "does not say .rn: it rounds otherwise, or may be fused "
                      "by the assembler");
}

void EntryReader::readConversion(const PTXInstruction &instruction,
                                 llvm::ArrayRef<StringRef> parts) {
  if (parts.size() < 3)
    return note(instruction, "is not understood");
  StringRef to = parts.back(), from = parts[parts.size() - 2];
  std::swap(to, from);
  std::optional<PackedFormat> target = parseFormat(to);
  std::optional<PackedFormat> source = parseFormat(from);
  if ((isFloatType(to) && !target) || (isFloatType(from) && !source))
    return note(instruction, "converts a format that kernels do not use");
  if (source && getBits(source->format) == 8)
    return count(instruction, RoundingOp::read, *source);
  // Conversions to an integer or to a wider format are exact by definition.
  if (!target || (source && getBits(target->format) > getBits(source->format)))
    return;
  if (source && target->format == source->format)
    return; // This rounds to an integral value.
  requireNearest(instruction, parts);
  if (source)
    count(instruction, RoundingOp::round, *target);
}

bool EntryReader::isConstant(StringRef operand, PackedFormat format,
                             uint64_t bits) const {
  std::optional<uint64_t> value = constants->lookup(operand);
  if (!value)
    return false;
  if (format.lanes == 2)
    return (*value & 0xFFFFFFFF) == (bits << 16 | bits);
  return (*value & 0xFFFF) == bits;
}

/// Returns the operation that a bf16 fma implements on chips without bf16
/// addition: a + b is fma(a, 1, b), a - b is fma(b, -1, a), a * b is fma(a, b,
/// -0).
RoundingOp EntryReader::classifyFMA(const PTXInstruction &instruction,
                                    PackedFormat format) const {
  auto operands = instruction.getOperands();
  if (!constants || format.format != RoundingFormat::bf16 ||
      operands.size() != 4)
    return RoundingOp::fma;
  auto hasFactor = [&](uint64_t bits) {
    return isConstant(operands[1], format, bits) ||
           isConstant(operands[2], format, bits);
  };
  if (hasFactor(0x3F80))
    return RoundingOp::add;
  if (hasFactor(0xBF80))
    return RoundingOp::sub;
  return isConstant(operands[3], format, 0x8000) ? RoundingOp::mul
                                                 : RoundingOp::fma;
}

//===----------------------------------------------------------------------===//
// Comparison
//===----------------------------------------------------------------------===//

namespace {
/// The bounds on how often a step executes an operation.
struct CountRange {
  int64_t least = 0, most = 0;

  void add(const CountRange &other) {
    least += other.least;
    most += other.most;
  }
};

using CountRanges =
    CountRange[RoundingCounts::numOps][RoundingCounts::numFormats];
} // namespace

/// Returns the number of additions by which a thread sums one step: over its
/// lanes, the 32 threads of its warp and the up to 8 warps of its block.
static int64_t getStepAdditions(int64_t width) {
  return width - 1 + llvm::Log2_64(32) + llvm::Log2_64(8);
}

/// Returns the number of additions for a sum over all steps: those of one step,
/// one onto the sums of earlier steps, and one for the total.
static int64_t getSumAdditions(int64_t width) {
  return getStepAdditions(width) + 2;
}

/// Returns a thread's additions for the sums of its columns: one onto each
/// level of their trees except the first, and as many for the totals.
static int64_t getColumnAdditions(const RequiredCounts &required,
                                  int64_t width) {
  return 2 * required.columnLevels * width;
}

/// Adds the required arithmetic of one step as a GPU executes it: a division or
/// root in a 16-bit format is one in f32 and a rounding.
static void addExpected(const RequiredCounts &required, int64_t width,
                        CountRanges &expected) {
  for (unsigned op = 0; op < RoundingCounts::numOps; ++op)
    for (unsigned format = 0; format < RoundingCounts::numFormats; ++format) {
      auto o = RoundingOp(op);
      auto f = RoundingFormat(format);
      int64_t elements = required.perElement.at(o, f) * width;
      int64_t uniform = required.uniform.at(o, f);
      int64_t optional = required.optional.at(o, f);
      CountRange range = {elements + uniform,
                          elements + (uniform + optional) * width};
      bool isWidened =
          getBits(f) == 16 && (o == RoundingOp::div || o == RoundingOp::sqrt);
      auto executed = isWidened ? RoundingFormat::f32 : f;
      expected[op][unsigned(executed)].add(range);
      if (isWidened)
        expected[unsigned(RoundingOp::round)][format].add(range);
    }
  for (auto [sums, format] : {std::pair(required.sums, RoundingFormat::f64),
                              {required.singleSums, RoundingFormat::f32}}) {
    int64_t additions = sums * getSumAdditions(width);
    expected[unsigned(RoundingOp::add)][unsigned(format)].add(
        {additions, additions});
  }
  int64_t additions = required.columnSums * getColumnAdditions(required, width);
  additions += required.rowSums * getStepAdditions(width);
  expected[unsigned(RoundingOp::add)][unsigned(RoundingFormat::f32)].add(
      {additions, additions});
}

static std::string print(const CountRange &range) {
  std::string text = std::to_string(range.least);
  return range.least == range.most ? text
                                   : text + " to " + std::to_string(range.most);
}

namespace {
/// The problems found in an entry.
struct Problems {
  std::vector<std::string> texts;
  /// Whether any of them is more than an unexpected count, which LLVM's
  /// simplifications can also cause.
  bool areCertain = false;
};
} // namespace

/// Describes how an operation's count differs, if it does. An excess fma is a
/// contraction, which changes results.
static void compare(const EntryReader::Occurrences &found,
                    const CountRange &expected, RoundingOp op,
                    const Twine &name, Problems &problems) {
  int64_t total = 0;
  const PTXInstruction *excess = nullptr;
  for (auto [instruction, lanes] : found) {
    total += lanes;
    if (total > expected.most && !excess)
      excess = instruction;
  }
  if (total >= expected.least && !excess)
    return;
  std::string text = (name + ": a step requires " + print(expected) +
                      ", the PTX executes " + Twine(total))
                         .str();
  if (excess)
    text += (", line " + Twine(excess->line) + " being one too many: '" +
             excess->text + "'")
                .str();
  problems.texts.push_back(text);
  problems.areCertain |= excess && op == RoundingOp::fma;
}

/// Compares the counts of sums and differences together: the instruction
/// selector turns a + (-b) into a - b, which is the same number.
static void compareSums(const EntryReader &reader, const CountRanges &expected,
                        unsigned format, Problems &problems) {
  unsigned add = unsigned(RoundingOp::add), sub = unsigned(RoundingOp::sub);
  EntryReader::Occurrences found =
      reader.get(RoundingOp::add, RoundingFormat(format));
  llvm::append_range(found,
                     reader.get(RoundingOp::sub, RoundingFormat(format)));
  CountRange range = expected[add][format];
  range.add(expected[sub][format]);
  compare(found, range, RoundingOp::add,
          "add and sub " + Twine(formatNames[format]), problems);
}

static void compareAll(const EntryReader &reader, const CountRanges &expected,
                       Problems &problems) {
  for (unsigned format = 0; format < RoundingCounts::numFormats; ++format)
    compareSums(reader, expected, format, problems);
  for (unsigned op = unsigned(RoundingOp::mul); op < RoundingCounts::numOps;
       ++op)
    for (unsigned format = 0; format < RoundingCounts::numFormats; ++format)
      compare(reader.get(RoundingOp(op), RoundingFormat(format)),
              expected[op][format], RoundingOp(op),
              opNames[op] + Twine(" ") + formatNames[format], problems);
}

char PTXCountError::ID;

/// Returns success if there are no problems, else an error that lists them.
static llvm::Error makeError(StringRef kernel, const Problems &problems) {
  llvm::ArrayRef<std::string> texts = problems.texts;
  if (texts.empty())
    return llvm::Error::success();
  std::string text =
      ("the PTX of '" + kernel + "' is not the kernel's arithmetic:").str();
  for (const std::string &problem :
       texts.take_front(std::min<size_t>(texts.size(), maxProblems)))
    text += "\n  " + problem;
  if (texts.size() > maxProblems)
    text += "\n  and " + std::to_string(texts.size() - maxProblems) +
            " more differences";
  if (problems.areCertain)
    return llvm::createStringError(text);
  return llvm::make_error<PTXCountError>(
      std::move(text), llvm::inconvertibleErrorCode(), /*PrintMsgOnly=*/true);
}

/// Returns the first error, unless only the second one is certain.
static llvm::Error choose(llvm::Error first, llvm::Error second) {
  if (!first)
    return second;
  if (!second || !first.isA<PTXCountError>() || second.isA<PTXCountError>()) {
    llvm::consumeError(std::move(second));
    return first;
  }
  llvm::consumeError(std::move(first));
  return second;
}

namespace {
/// Parses the entries of a PTX module and checks them.
class PTXReader {
public:
  PTXReader(StringRef ptx, Chip chip, int64_t width)
      : functions(readEntries(ptx)), width(width) {
    for (const PTXFunction &function : functions) {
      EntryReader &reader =
          readers.emplace_back(function, chip.hasBF16Arithmetic());
      reader.run();
    }
  }

  /// Checks that no entry has an instruction that no kernel may contain.
  llvm::Error checkInstructions(StringRef kernel);
  llvm::Error check(const PartRequirement &part) const;
  /// Checks the entry that launches several parts in bands.
  llvm::Error checkBands(llvm::ArrayRef<PartRequirement> parts) const;

private:
  const EntryReader *find(const std::string &name) const {
    for (auto [function, reader] : llvm::zip(functions, readers))
      if (function.name == name)
        return &reader;
    return nullptr;
  }
  llvm::Error compare(const std::string &kernel, const CountRanges &expected,
                      Problems problems = {}) const {
    std::string name = getEntryName(kernel);
    const EntryReader *entry = find(name);
    if (!entry)
      return llvm::createStringError("the PTX has no entry '" + name + "'");
    compareAll(*entry, expected, problems);
    return makeError(kernel, problems);
  }

  std::vector<PTXFunction> functions;
  std::vector<EntryReader> readers;
  int64_t width;
};
} // namespace

llvm::Error PTXReader::checkInstructions(StringRef kernel) {
  Problems problems;
  problems.areCertain = true;
  for (EntryReader &reader : readers)
    llvm::append_range(problems.texts, reader.takeProblems());
  for (const PTXFunction &function : functions)
    llvm::append_range(problems.texts, findForbiddenIdioms(function));
  return makeError(kernel, problems);
}

llvm::Error PTXReader::check(const PartRequirement &part) const {
  Problems problems;
  if (const EntryReader *prologue = find(getPrologueName(part.name))) {
    int64_t count = part.counts.prologueFMAs;
    ::compare(prologue->get(RoundingOp::fma, RoundingFormat::f64),
              CountRange{count, count}, RoundingOp::fma,
              "fma f64 of the prologue", problems);
  }
  CountRanges expected;
  addExpected(part.counts, width, expected);
  return compare(part.name, expected, std::move(problems));
}

llvm::Error PTXReader::checkBands(llvm::ArrayRef<PartRequirement> parts) const {
  CountRanges expected;
  for (const PartRequirement &part : parts) {
    addExpected(part.counts, width, expected);
    int64_t joins = part.counts.rowSums;
    expected[unsigned(RoundingOp::add)][unsigned(RoundingFormat::f32)].add(
        {joins, joins});
  }
  return compare(parts.front().name + TDM_LAUNCH_BANDS, expected);
}

/// Returns the parts of the launch that begins with the first part.
static llvm::ArrayRef<PartRequirement>
takeLaunch(llvm::ArrayRef<PartRequirement> parts) {
  size_t count = 1;
  while (count < parts.size() && parts[count].fusedWithPrevious)
    ++count;
  return parts.take_front(count);
}

llvm::Error tandem::checkPTX(StringRef ptx,
                             llvm::ArrayRef<PartRequirement> parts,
                             StringRef chipName, int64_t width) {
  std::optional<Chip> chip = Chip::parse(chipName);
  if (!chip)
    return llvm::createStringError("chip '" + chipName +
                                   "' is not written like sm_90");
  PTXReader reader(ptx, *chip, width);
  llvm::Error error =
      reader.checkInstructions(parts.empty() ? "" : parts.front().name);
  for (size_t i = 0; i < parts.size(); ++i) {
    error = choose(std::move(error), reader.check(parts[i]));
    auto launch = takeLaunch(parts.drop_front(i));
    if (launch.size() > 1 && !parts[i].fusedWithPrevious)
      error = choose(std::move(error), reader.checkBands(launch));
  }
  return error;
}
