//===- TensorTable.cpp - The tensor and chunk tables of a launch ----------===//
//
// Part of the Tandem Project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// This file implements the table of tensors that a compiled kernel reads, and
// the checks of the tensors that are added to it.
//
//===----------------------------------------------------------------------===//

#include "TensorTable.h"

#include <algorithm>
#include <limits>
#include <tuple>
#include <utility>

using namespace tandem::runtime;

static_assert(sizeof(void *) == sizeof(int64_t) &&
                  sizeof(tdm_launch_tensor) % sizeof(int64_t) == 0,
              "records are kept as 64-bit words");

static constexpr int64_t maxInt64 = std::numeric_limits<int64_t>::max();
static constexpr int64_t headWords =
    sizeof(tdm_launch_tensor) / sizeof(int64_t);

//===----------------------------------------------------------------------===//
// Checks of one tensor
//===----------------------------------------------------------------------===//

static int64_t divideUp(int64_t count, int64_t size) {
  return count / size + (count % size != 0);
}

/// Returns the size of a plane in bytes. It counts bytes per eight elements,
/// because the size in bits may overflow 64 bits.
static int64_t bytesOf(const Plane &plane, const tdm_tensor &tensor) {
  int64_t entries = plane.rows.entriesFor(tensor.rows) *
                    plane.columns.entriesFor(tensor.columns) * plane.values;
  int64_t wholeBytes = entries / 8 * plane.bits;
  return wholeBytes + (entries % 8 * plane.bits + 7) / 8;
}

tdm_status TensorTable::checkPlane(const Kernel &kernel,
                                   const tdm_tensor &tensor,
                                   uint32_t index) const {
  const Plane &plane = kernel.planes[index];
  const void *pointer = tensor.planes[index];
  int64_t elements = tensor.rows * tensor.columns;
  if (!pointer)
    return kernel.fail(TDM_INVALID_ARGUMENT)
           << TensorNumber{count} << ": plane '" << kernel.getPlaneName(index)
           << "' is NULL but the tensor has " << elements
           << " elements; pass the plane's memory";
  auto address = reinterpret_cast<uintptr_t>(pointer);
  if (address & (plane.alignment() - 1))
    return kernel.fail(TDM_INVALID_ARGUMENT)
           << TensorNumber{count} << ": plane '" << kernel.getPlaneName(index)
           << "' is at " << pointer
           << ", which is not aligned to its elements of " << plane.alignment()
           << " bytes; align it";
  // The first condition keeps bytesOf from overflowing.
  if (elements >= plane.maxElements ||
      address + bytesOf(plane, tensor) < address)
    return kernel.fail(TDM_INVALID_ARGUMENT)
           << TensorNumber{count} << ": plane '" << kernel.getPlaneName(index)
           << "' of " << elements
           << " elements does not fit into memory; correct rows "
           << "and columns";
  return TDM_OK;
}

/// Returns whether each row of a tensor is cut into chunks separately. This is
/// the case in matrix kernels, and in others if a group would cross the end of
/// a row or if the tree over the rows' sums differs from that over all
/// elements.
static bool hasRows(const Kernel &kernel, const tdm_tensor &tensor) {
  // An empty shard has no columns, but must be cut in the same way as the
  // others.
  int64_t columns =
      tensor.sharding ? tensor.sharding->row_length : tensor.columns;
  auto endsInside = [&](const Plane &plane) {
    return !plane.isWholeTensor() && (columns & (plane.columns.size() - 1));
  };
  int64_t rows =
      tensor.sharding ? unshardedRows(*tensor.sharding) : tensor.rows;
  if (kernel.matrix || rows <= 1)
    return kernel.matrix;
  bool isPowerOfTwo = !(columns & (columns - 1));
  return (kernel.hasSums() && !isPowerOfTwo) ||
         std::any_of(kernel.planes.begin(), kernel.planes.end(), endsInside);
}

/// Checks that shards have whole groups and blocks of rows, and that entries
/// that all ranks share are written by all of them.
static tdm_status checkShardedPlanes(const Kernel &kernel,
                                     const tdm_tensor &tensor, int64_t index) {
  if (tdm_status status = checkSharding(kernel, tensor, index))
    return status;
  Sharding sharding(tensor.sharding);
  auto isCutAt = [&](int64_t rows) {
    return sharding.rowLength &&
           std::any_of(sharding.starts.begin(), sharding.starts.end() - 1,
                       [&](int64_t start) {
                         return start / sharding.rowLength % rows;
                       });
  };
  if (kernel.block && isCutAt(kernel.block))
    return kernel.fail(TDM_INVALID_ARGUMENT)
           << TensorNumber{index} << ": a shard begins inside of a block of "
           << kernel.block << " rows; shard at multiples of " << kernel.block
           << " rows";
  bool isEmpty = !tensor.rows || !tensor.columns;
  for (size_t i = 0; i < kernel.planes.size(); ++i) {
    const Plane &plane = kernel.planes[i];
    int64_t rows = plane.rows.size();
    bool isOfAll = plane.rows.areAll();
    if (!isOfAll && rows > 1 && isCutAt(rows))
      return kernel.fail(TDM_INVALID_ARGUMENT)
             << TensorNumber{index} << ": a shard begins inside of " << rows
             << " rows that share an entry of plane '" << kernel.getPlaneName(i)
             << "'; shard at multiples of " << rows << " rows";
    if (isEmpty && sharding.starts.back() && plane.written && isOfAll)
      return kernel.fail(TDM_INVALID_ARGUMENT)
             << TensorNumber{index} << ": shard " << sharding.shard
             << " is empty, so that its entries of plane '"
             << kernel.getPlaneName(i)
             << "' would not follow those of other ranks; spread the tensor "
             << "over fewer ranks";
  }
  return TDM_OK;
}

/// Checks each number of a tensor separately.
static tdm_status checkFields(const Kernel &kernel, const tdm_tensor &tensor,
                              int64_t index) {
  const std::pair<const char *, int64_t> fields[] = {
      {"rows", tensor.rows},
      {"columns", tensor.columns},
      {"first", tensor.first},
      {"scalar_row", tensor.scalar_row}};
  for (auto [field, value] : fields)
    if (value < 0)
      return kernel.fail(TDM_INVALID_ARGUMENT)
             << TensorNumber{index} << ": " << field << " is " << value
             << "; it must not be negative";
  if (tensor.columns && tensor.rows > maxInt64 / tensor.columns)
    return kernel.fail(TDM_INVALID_ARGUMENT)
           << TensorNumber{index} << ": " << tensor.rows << " rows of "
           << tensor.columns << " columns overflow 64 bits; correct the shape";
  if (tensor.first > maxInt64 - tensor.rows * tensor.columns)
    return kernel.fail(TDM_INVALID_ARGUMENT)
           << TensorNumber{index} << ": first is " << tensor.first
           << ", so that the index of the last element overflows 64 bits; "
           << "correct first";
  if (tensor.scalar_row >= Kernel::maxRows)
    return kernel.fail(TDM_INVALID_ARGUMENT)
           << TensorNumber{index} << ": scalar_row is " << tensor.scalar_row
           << "; it must be below " << Kernel::maxRows;
  return TDM_OK;
}

/// Checks that a row fits into a chunk if sums need it to be one.
static tdm_status checkRowLength(const Kernel &kernel, const tdm_tensor &tensor,
                                 int64_t index) {
  if (tensor.columns <= TDM_LAUNCH_CHUNK_ELEMENTS || kernel.matrix ||
      !kernel.hasAnySums() || !hasRows(kernel, tensor))
    return TDM_OK;
  return kernel.fail(TDM_INVALID_ARGUMENT)
         << TensorNumber{index} << ": a row has " << tensor.columns
         << " columns, which a kernel with sums or metrics takes in one chunk "
         << "of at most " << TDM_LAUNCH_CHUNK_ELEMENTS
         << "; pass the tensor with shorter rows";
}

/// Checks that the kernel can start at the tensor's first element.
static tdm_status checkFirst(const Kernel &kernel, const tdm_tensor &tensor,
                             int64_t index) {
  if (tensor.first && !tensor.sharding &&
      (!kernel.reductions.empty() || kernel.matrix))
    return kernel.fail(TDM_INVALID_ARGUMENT)
           << TensorNumber{index} << ": first is " << tensor.first
           << ", but the kernel works on whole tensors; pass the unsharded "
           << "tensor, or the sharding of this one";
  bool isWholeRows = hasRows(kernel, tensor);
  if (isWholeRows && tensor.columns && tensor.first % tensor.columns)
    return kernel.fail(TDM_INVALID_ARGUMENT)
           << TensorNumber{index} << ": first is " << tensor.first
           << ", inside of a row of " << tensor.columns
           << " elements, where groups begin anew; shard at multiples of "
           << tensor.columns;
  for (size_t i = 0; i < kernel.planes.size(); ++i)
    if (const Plane &plane = kernel.planes[i];
        tensor.first && plane.isWholeTensor() && !tensor.sharding)
      return kernel.fail(TDM_INVALID_ARGUMENT)
             << TensorNumber{index} << ": first is " << tensor.first
             << ", but plane '" << kernel.getPlaneName(i)
             << "' has one entry for a whole tensor; pass the unsharded "
                "tensor, "
             << "or the sharding of this one";
    else if (!isWholeRows && !plane.isWholeTensor() &&
             tensor.first % plane.columns.size())
      return kernel.fail(TDM_INVALID_ARGUMENT)
             << TensorNumber{index} << ": first is " << tensor.first
             << ", inside of a group of " << plane.columns.size()
             << " elements that share an entry of plane '"
             << kernel.getPlaneName(i) << "'; shard at multiples of "
             << plane.columns.size();
  return TDM_OK;
}

/// Checks all fields except for the planes.
static tdm_status checkSizes(const Kernel &kernel, const tdm_tensor &tensor,
                             int64_t index) {
  if (tdm_status status = checkFields(kernel, tensor, index))
    return status;
  if (tensor.sharding)
    if (tdm_status status = checkShardedPlanes(kernel, tensor, index))
      return status;
  if (tdm_status status = checkRowLength(kernel, tensor, index))
    return status;
  return checkFirst(kernel, tensor, index);
}

tdm_status TensorTable::check(const Kernel &kernel,
                              const tdm_tensor &tensor) const {
  if (tdm_status status = checkSizes(kernel, tensor, count))
    return status;
  bool empty = tensor.rows == 0 || tensor.columns == 0;
  if (empty || kernel.planes.empty())
    return TDM_OK;
  if (!tensor.planes)
    return kernel.fail(TDM_INVALID_ARGUMENT)
           << TensorNumber{count} << ": planes is NULL; pass "
           << kernel.planes.size() << " pointers, the first of them '"
           << kernel.getPlaneName(0) << "'";
  for (uint32_t plane = 0; plane < kernel.planes.size(); ++plane)
    if (tdm_status status = checkPlane(kernel, tensor, plane))
      return status;
  return TDM_OK;
}

//===----------------------------------------------------------------------===//
// Overlaps
//===----------------------------------------------------------------------===//

static tdm_status failOverlap(const Kernel &kernel, const Interval &a,
                              const Interval &b) {
  const Interval &written = a.written ? a : b;
  const Interval &other = a.written ? b : a;
  uintptr_t bytes = std::min(a.end, b.end) - std::max(a.begin, b.begin);
  return kernel.fail(TDM_OVERLAP)
         << TensorNumber{written.tensor} << ": plane '"
         << kernel.getPlaneName(written.plane)
         << "', which the kernel writes, shares " << bytes
         << " bytes with plane '" << kernel.getPlaneName(other.plane) << "' of "
         << TensorNumber{other.tensor} << "; give each its own memory";
}

/// Sorts \p keys by their begin with a stable radix sort. A comparison sort
/// would take most of the time of an update.
static void sortByBegin(std::vector<SortKey> &keys,
                        std::vector<SortKey> &room) {
  constexpr int digitBits = 11;
  constexpr uintptr_t mask = (1 << digitBits) - 1;
  uintptr_t differing = 0;
  for (const SortKey &key : keys)
    differing |= key.begin ^ keys[0].begin;
  room.resize(keys.size());
  for (int shift = 0; shift < 64; shift += digitBits) {
    if (!(differing >> shift & mask))
      continue;
    size_t places[mask + 1] = {};
    for (const SortKey &key : keys)
      ++places[key.begin >> shift & mask];
    size_t total = 0;
    for (size_t &place : places)
      total += std::exchange(place, total);
    for (const SortKey &key : keys)
      room[places[key.begin >> shift & mask]++] = key;
    std::swap(keys, room);
  }
}

tdm_status TensorTable::checkOverlaps(const Kernel &kernel) {
  order.resize(intervals.size());
  for (size_t i = 0; i < intervals.size(); ++i)
    order[i] = {intervals[i].begin, i};
  sortByBegin(order, orderRoom);
  // In the order of their begins, an interval overlaps an earlier one if and
  // only if it begins before the farthest end so far. Written intervals have
  // been disjoint so far, so the latest of them reaches the farthest.
  const Interval *farthest = nullptr, *latestWritten = nullptr;
  for (const SortKey &key : order) {
    const Interval &interval = intervals[key.interval];
    const Interval *earlier = interval.written ? farthest : latestWritten;
    if (earlier && interval.begin < earlier->end)
      return failOverlap(kernel, *earlier, interval);
    if (!farthest || interval.end > farthest->end)
      farthest = &interval;
    if (interval.written)
      latestWritten = &interval;
  }
  return TDM_OK;
}

//===----------------------------------------------------------------------===//
// Tensor table
//===----------------------------------------------------------------------===//

static int64_t planeWord(const tdm_tensor &tensor, size_t plane) {
  // The planes of an empty tensor are never accessed and may be missing.
  bool present = tensor.rows && tensor.columns && tensor.planes;
  return present ? reinterpret_cast<int64_t>(tensor.planes[plane]) : 0;
}

/// Returns a tensor's record with the fields that do not depend on a plan.
static tdm_launch_tensor makeHead(const Kernel &kernel,
                                  const tdm_tensor &tensor) {
  tdm_launch_tensor head = {};
  bool isCut = hasRows(kernel, tensor);
  head.rows = isCut ? tensor.rows : 1;
  head.columns = isCut ? tensor.columns : tensor.rows * tensor.columns;
  const tdm_sharding *sharding = tensor.sharding;
  if (kernel.matrix)
    head.num_elements = sharding ? unshardedRows(*sharding) : tensor.rows;
  else
    head.num_elements = sharding ? sharding->starts[sharding->num_shards]
                                 : tensor.rows * tensor.columns;
  head.first = tensor.first;
  head.key = tensor.key;
  head.scalar_row = tensor.scalar_row;
  return head;
}

/// Returns whether what an external step leaves in a plane replaces what was
/// sent to it, which no launch after the step reads.
static bool replacesSent(const Kernel &kernel, const tdm_tensor &tensor,
                         uint32_t plane) {
  const Plane &received = kernel.planes[plane];
  for (uint32_t i = 0; i < kernel.planes.size(); ++i)
    if (received.kind == TDM_ROLE_RECEIVED &&
        kernel.planes[i].kind == TDM_ROLE_SENT &&
        kernel.planes[i].bits == received.bits &&
        planeWord(tensor, i) == planeWord(tensor, plane))
      return true;
  return false;
}

void TensorTable::append(const Kernel &kernel, const tdm_tensor &tensor) {
  words.resize(words.size() + recordWords);
  record(count) = makeHead(kernel, tensor);
  shardings.emplace_back(tensor.sharding);
  cut.push_back(hasRows(kernel, tensor));
  const Sharding &sharding = shardings.back();
  trees.push_back(
      sharding.isWhole()
          ? ShardTree()
          : ShardTree(sharding, cut.back() ? sharding.rowLength : 1));
  int64_t elements = tensor.rows * tensor.columns;
  for (uint32_t i = 0; i < kernel.planes.size(); ++i) {
    int64_t word = planeWord(tensor, i);
    words[count * recordWords + headWords + i] = word;
    auto begin = static_cast<uintptr_t>(word);
    const Plane &plane = kernel.planes[i];
    if (elements && !replacesSent(kernel, tensor, i))
      intervals.push_back(
          {begin, begin + bytesOf(plane, tensor), count, i, plane.written});
  }
  if (tensor.scalar_row >= needRows) {
    needRows = tensor.scalar_row + 1;
    needRowsTensor = count;
  }
  ++count;
}

tdm_status TensorTable::assign(const Kernel &kernel, const tdm_tensor *tensors,
                               int64_t newCount) {
  if (newCount < 0)
    return kernel.fail(TDM_INVALID_ARGUMENT)
           << "the number of tensors is " << newCount
           << "; it must not be negative";
  if (newCount && !tensors)
    return kernel.fail(TDM_INVALID_ARGUMENT)
           << "tensors is NULL; pass " << newCount << " tensors";
  words.clear();
  intervals.clear();
  shardings.clear();
  trees.clear();
  cut.clear();
  block = kernel.block;
  numPlanes = static_cast<int64_t>(kernel.planes.size());
  recordWords =
      headWords + numPlanes + static_cast<int64_t>(kernel.reductions.size());
  count = needRows = needRowsTensor = 0;
  for (int64_t i = 0; i < newCount; ++i) {
    if (tdm_status status = check(kernel, tensors[i]))
      return status;
    append(kernel, tensors[i]);
  }
  return checkOverlaps(kernel);
}

static bool isHeadOf(const tdm_launch_tensor &head, const Kernel &kernel,
                     const tdm_tensor &tensor) {
  tdm_launch_tensor other = makeHead(kernel, tensor);
  auto fields = [](const tdm_launch_tensor &head) {
    return std::tie(head.rows, head.columns, head.num_elements, head.first,
                    head.key, head.scalar_row);
  };
  return fields(head) == fields(other);
}

bool TensorTable::holds(const Kernel &kernel, const tdm_tensor *tensors,
                        int64_t newCount) const {
  if (newCount != count || (count && !tensors))
    return false;
  for (int64_t i = 0; i < count; ++i) {
    const int64_t *planes = &words[i * recordWords + headWords];
    if (!shardings[i].isThatOf(tensors[i]) ||
        !isHeadOf(record(i), kernel, tensors[i]))
      return false;
    for (int64_t plane = 0; plane < numPlanes; ++plane)
      if (planes[plane] != planeWord(tensors[i], plane))
        return false;
  }
  return true;
}

int64_t TensorTable::extent(int64_t tensor, tdm_granularity per) const {
  if (per == TDM_PER_ELEMENT || !elements(tensor))
    return elements(tensor);
  if (per == TDM_PER_BLOCK)
    return block ? divideUp(rows(tensor), block) *
                       divideUp(columns(tensor), block)
                 : 0;
  return per == TDM_PER_ROW ? rows(tensor) : columns(tensor);
}

bool TensorTable::sameShapes(const TensorTable &other) const {
  if (count != other.count)
    return false;
  for (int64_t i = 0; i < count; ++i)
    if (rows(i) != other.rows(i) || columns(i) != other.columns(i) ||
        shardings[i] != other.shardings[i])
      return false;
  return true;
}

bool TensorTable::isSharded() const {
  return std::any_of(
      shardings.begin(), shardings.end(),
      [](const Sharding &sharding) { return !sharding.isWhole(); });
}
