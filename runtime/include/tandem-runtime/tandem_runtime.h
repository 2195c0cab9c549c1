//===- tandem_runtime.h - Tandem's runtime, C interface ---------*- C++ -*-===//
//
// Part of the Tandem Project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// This file declares the C interface of the runtime, which launches compiled
// kernels over lists of tensors. It is usable from C99 and from C++.
//
// A kernel describes compiled code: its planes, hyperparameters and entry
// points. A plan binds a kernel to a list of tensors and may be launched any
// number of times. A device runs kernels and holds tensors: it is the CPU or a
// GPU, whose driver is loaded when the first device is opened. Every function
// that can fail returns a tdm_status and leaves a message for tdm_last_error().
// A call that fails changes no array, kernel or plan. If a device fails in the
// middle of a launch, the contents of the arrays are unspecified.
//
//===----------------------------------------------------------------------===//

#ifndef TANDEM_RUNTIME_TANDEM_RUNTIME_H
#define TANDEM_RUNTIME_TANDEM_RUNTIME_H

#include <stddef.h>
#include <stdint.h>

#if defined(_WIN32) && defined(TDM_BUILDING_RUNTIME)
/// Marks a function that the runtime exports.
#define TDM_API __declspec(dllexport)
#elif defined(_WIN32)
#define TDM_API __declspec(dllimport)
#else
#define TDM_API __attribute__((visibility("default")))
#endif

#ifdef __cplusplus
extern "C" {
#endif

//===----------------------------------------------------------------------===//
// Version, status, messages
//===----------------------------------------------------------------------===//

/// The version of this header: major * 65536 + minor * 256 + patch.
#define TDM_RUNTIME_VERSION 0x000100u

/// The outcome of a call.
typedef enum tdm_status {
  /// The call succeeded.
  TDM_OK = 0,
  /// A description, tensor or count is malformed.
  TDM_INVALID_ARGUMENT = 1,
  /// A hyperparameter or an integer lies outside of its domain.
  TDM_OUT_OF_DOMAIN = 2,
  /// A written plane shares memory with another plane.
  TDM_OVERLAP = 3,
  /// Memory could not be allocated.
  TDM_OUT_OF_MEMORY = 4,
  /// The call does not fit the state of the object, for instance because
  /// another thread is using the plan.
  TDM_INVALID_STATE = 5,
  /// There is no such device, no driver for it, or no code that it can run.
  TDM_UNAVAILABLE = 6,
  /// A call of the device's driver failed.
  TDM_DEVICE_ERROR = 7,
  /// A package cannot be read: the file is damaged, has another version or is
  /// not a package at all.
  TDM_INVALID_PACKAGE = 8,
  /// A callback of the host, for ranks or external steps, failed.
  TDM_EXCHANGE_ERROR = 9
} tdm_status;

/// Returns the TDM_RUNTIME_VERSION that the library was built with.
TDM_API uint32_t tdm_runtime_version(void);

/// Returns a short English name of \p status, never NULL.
TDM_API const char *tdm_status_string(tdm_status status);

/// Returns the message of the latest call that failed on this thread, or the
/// empty string if none has. It stays valid until the next failing call on
/// this thread. A call that succeeds does not change it.
TDM_API const char *tdm_last_error(void);

// Each enumeration is declared by a list, VALUE(enumerator, name), from which
// messages and other languages take its values and names. Packages store the
// numbers, which count from 0, so new values are added at the end.
#define TDM_ENUMERATOR(enumerator, name) enumerator,
#define TDM_COUNT_ENUMERATOR(enumerator, name) +1
/// The number of values in the enumeration that the list declares.
#define TDM_NUM_VALUES(LIST) (0 LIST(TDM_COUNT_ENUMERATOR))

/// The kinds of message parts. The runtime's messages use the first six: plain
/// text; "tensor 3" of the caller's list; "row 3" of the caller's
/// hyperparameters and integers; and the name of a plane, a hyperparameter or
/// an integer of the kernel. The compiler's messages (tandem-c/Error.h) also
/// name a role (an argument of a graph), a graph, layer or kernel, a strategy
/// or recipe, a storage, a float format, a target, or a file.
#define TDM_MESSAGE_KINDS(VALUE)                                               \
  VALUE(TDM_MESSAGE_TEXT, text)                                                \
  VALUE(TDM_MESSAGE_TENSOR, tensor)                                            \
  VALUE(TDM_MESSAGE_ROW, row)                                                  \
  VALUE(TDM_MESSAGE_PLANE, plane)                                              \
  VALUE(TDM_MESSAGE_HYPER, hyper)                                              \
  VALUE(TDM_MESSAGE_INTEGER, integer)                                          \
  VALUE(TDM_MESSAGE_ROLE, role)                                                \
  VALUE(TDM_MESSAGE_GRAPH, graph)                                              \
  VALUE(TDM_MESSAGE_STRATEGY, strategy)                                        \
  VALUE(TDM_MESSAGE_STORAGE, storage)                                          \
  VALUE(TDM_MESSAGE_FORMAT, format)                                            \
  VALUE(TDM_MESSAGE_TARGET, target)                                            \
  VALUE(TDM_MESSAGE_FILE, file)
typedef enum tdm_message_kind {
  TDM_MESSAGE_KINDS(TDM_ENUMERATOR)
} tdm_message_kind;

/// A part of a message; the message is the text of all parts. A host that uses
/// its own names can substitute them for a part's text.
typedef struct tdm_message_part {
  tdm_message_kind kind;
  /// The number of the tensor, row, plane, hyperparameter or integer; 0 for
  /// other parts.
  int64_t index;
  /// The part's text, \c size bytes of the message.
  const char *text;
  size_t size;
} tdm_message_part;

/// Writes up to \p capacity parts of tdm_last_error() and returns the number of
/// all parts.
TDM_API size_t tdm_last_error_parts(tdm_message_part *parts, size_t capacity);

//===----------------------------------------------------------------------===//
// Devices
//===----------------------------------------------------------------------===//

/// A device that kernels run on. Any number of threads may use it.
typedef struct tdm_device tdm_device;

/// The properties of a device.
typedef struct tdm_device_info {
  /// sizeof(tdm_device_info), set by the caller.
  size_t struct_size;
  /// The name of the driver that opened the device.
  const char *driver;
  int32_t ordinal;
  /// The vendor's name for the device.
  char name[128];
  /// The target that code for the device is compiled for, such as "cpu".
  char target[16];
  /// The device's memory in bytes; 0 for a CPU.
  uint64_t memory;
  /// The number of multiprocessors or, on a CPU, of the threads that a launch
  /// uses by default.
  int32_t multiprocessors;
  /// The version of the system's driver, such as 12040; 0 for a CPU.
  int32_t driver_version;
} tdm_device_info;

/// Stores the number of a driver's devices in \p count: 0 if the system lacks
/// what the driver needs. The runtime has "cpu" and the drivers of GPUs
/// (docs/GPU.md); a program adds others through tandem_driver.h.
TDM_API tdm_status tdm_device_count(const char *driver, int32_t *count);

/// Opens device number \p ordinal of a driver.
TDM_API tdm_status tdm_device_open(const char *driver, int32_t ordinal,
                                   tdm_device **device);

/// Stores the properties of \p device in \p info.
TDM_API tdm_status tdm_device_query(const tdm_device *device,
                                    tdm_device_info *info);

/// Allocates memory on the device, aligned to 256 bytes on a GPU and to 64
/// bytes on the CPU.
TDM_API tdm_status tdm_device_allocate(const tdm_device *device, size_t bytes,
                                       void **memory);

/// Frees memory that tdm_device_allocate returned. NULL is allowed.
TDM_API tdm_status tdm_device_free(const tdm_device *device, void *memory);

/// Waits for all work of the device, copies \p bytes, and waits for the copy,
/// so that work enqueued afterwards in any stream sees it. Source and
/// destination may each be memory of the device or of the process. During a
/// capture of a GPU's stream the call fails with TDM_INVALID_STATE and
/// invalidates the capture.
TDM_API tdm_status tdm_device_copy(const tdm_device *device, void *to,
                                   const void *from, size_t bytes);

/// Waits for all work of the device. During a capture it fails as
/// tdm_device_copy does.
TDM_API tdm_status tdm_device_synchronize(const tdm_device *device);

/// Closes \p device. Its kernels and plans stay usable. NULL is allowed.
TDM_API void tdm_device_close(tdm_device *device);

//===----------------------------------------------------------------------===//
// Binary interface of compiled kernels
//===----------------------------------------------------------------------===//
//
// tandem_launch.h declares the records that the entry points read.

/// Processes the chunks [chunk_begin, chunk_end) of the chunk table. Chunk c
/// owns num_reductions slots of 8 bytes of \p workspace and, in the last phase,
/// workspace_doubles_per_chunk more; its slots follow those of chunk c - 1.
/// \p flags belongs to the calling thread; the entry ORs TDM_FLAG_*
/// bits into it. May run on many threads at once.
typedef void (*tdm_cpu_entry)(const void *tensors, const void *chunks,
                              const uint32_t *scalars, void *workspace,
                              uint32_t *flags, int64_t chunk_begin,
                              int64_t chunk_end);

/// Computes \p rows rows of 32-bit scalars from as many rows of
/// hyperparameters and integers.
typedef void (*tdm_cpu_prologue)(const double *hypers, const int64_t *integers,
                                 uint32_t *scalars, int64_t rows);

// On a GPU an entry has the same arguments, and its blocks share the range of
// chunks. A block has 256 threads; the prologue runs in one thread. \p flags
// has two words: the launch's flags, and one that is nonzero if the launch is
// to be skipped. Further kernels do what the runtime itself computes on a CPU:
//   <entry>_totals       the totals of a phase's reductions over tensors and
//                        the model, for tensors [chunk_begin, chunk_end)
//   <entry>_model        then those over the model, in one block
//   <entry>_row_totals, <entry>_column_totals
//                        reductions along rows and columns, over the chunks of
//                        rows and of columns
//   <entry>_bands        the phase and those fused with it, over bands: the
//                        records of tiles of all columns, through which a block
//                        goes in tiles of 2048, each with the parts of rows
//                        that begin num_rows entries after the one before it;
//                        reductions along rows are then complete

/// The flag of a launch in which a gradient was a NaN or an infinity. Only
/// kernels that are compiled to report it raise it.
#define TDM_FLAG_NON_FINITE 1u

//===----------------------------------------------------------------------===//
// Kernels
//===----------------------------------------------------------------------===//

/// The kernel reads the plane.
#define TDM_ACCESS_READ 1u
/// The kernel writes the plane.
#define TDM_ACCESS_WRITE 2u

/// The value of \c group for a plane with one entry for the whole tensor.
#define TDM_WHOLE_TENSOR 0xFFFFFFFFu
/// The value of \c group for a plane of elements with one entry per matrix row.
#define TDM_WHOLE_ROW 0xFFFFFFFEu

/// The units that a plane has entries for, or that a phase runs over: elements,
/// or the rows, columns or square blocks of a matrix. No plane has
/// TDM_PER_BLOCK.
#define TDM_GRANULARITIES(VALUE)                                               \
  VALUE(TDM_PER_ELEMENT, element)                                              \
  VALUE(TDM_PER_ROW, row)                                                      \
  VALUE(TDM_PER_COLUMN, column)                                                \
  VALUE(TDM_PER_BLOCK, block)
typedef enum tdm_granularity {
  TDM_GRANULARITIES(TDM_ENUMERATOR)
} tdm_granularity;

/// The roles of a graph's arguments.
#define TDM_ROLES(VALUE)                                                       \
  VALUE(TDM_ROLE_PARAM, param)                                                 \
  VALUE(TDM_ROLE_GRAD, grad)                                                   \
  VALUE(TDM_ROLE_STATE, state)                                                 \
  VALUE(TDM_ROLE_HYPER, hyper)                                                 \
  VALUE(TDM_ROLE_STEP, step)                                                   \
  VALUE(TDM_ROLE_SEED, seed)                                                   \
  VALUE(TDM_ROLE_INPUT, input)                                                 \
  VALUE(TDM_ROLE_OUTPUT, output)                                               \
  VALUE(TDM_ROLE_SAVED, saved)                                                 \
  VALUE(TDM_ROLE_RESTORED, restored)                                           \
  VALUE(TDM_ROLE_SENT, sent)                                                   \
  VALUE(TDM_ROLE_RECEIVED, received)
typedef enum tdm_role { TDM_ROLES(TDM_ENUMERATOR) } tdm_role;

// After each struct a list names the fields that packages store and that Python
// shows: VALUE(field), or FLAG(field) for a field that is zero or nonzero. A
// new field needs a line in the struct, in the list and in Package.fbs.

/// One array of a tensor.
typedef struct tdm_plane_desc {
  /// The name that messages use, such as "param" or "exp_avg.lo".
  const char *name;
  /// Bits per element: 1, 2, 4, 8, 16, 32 or 64. Elements smaller than a byte
  /// are packed.
  uint32_t bits;
  /// TDM_ACCESS_READ, TDM_ACCESS_WRITE or both.
  uint32_t access;
  /// The number of consecutive elements of the unsharded tensor that share an
  /// entry: a power of two up to 4096, where 0 means 1, or TDM_WHOLE_TENSOR for
  /// all elements or TDM_WHOLE_ROW for those of a row. In a matrix kernel
  /// groups start anew in each row. In a plane per row or column, this many
  /// consecutive rows or columns share an entry.
  uint32_t group;
  /// The number of values in an entry's history, up to 65536, the newest first;
  /// 0 for a plain entry of one value.
  uint32_t history;
  /// The unit that the plane has entries for. Only a matrix kernel may have
  /// values other than TDM_PER_ELEMENT.
  tdm_granularity per;
  /// The number of consecutive matrix rows that share an entry. Values other
  /// than 0 and 1 must equal both \c group and the kernel's \c block.
  uint32_t rows;
  /// Nonzero if the array holds the elements of a matrix transposed: the
  /// element at (row, column) is entry column * rows + row.
  uint32_t transposed;
  /// The name of the tensor that the plane is a part of. The runtime does not
  /// read this field and those after it; they are for hosts.
  const char *role;
  tdm_role kind;
  /// The type of the plane's entries: "bf16", "f32", "i16", or "i4x2" for the
  /// codes of two neighbours in a byte, the first in its low half. The latter's
  /// `group` is 2.
  const char *type;
  /// Nonzero if frameworks read this plane as the tensor's value.
  uint32_t visible;
  /// Nonzero if storing a value reads data that earlier steps have stored.
  uint32_t persistent;
  /// A readable description of the tensor and its storage, such as "second
  /// moment of the gradients, stored as #tandem.float<bf16>"; empty if the
  /// graph has none.
  const char *doc;
  /// The external step of a TDM_ROLE_SENT or TDM_ROLE_RECEIVED plane, or empty.
  const char *external;
} tdm_plane_desc;

#define TDM_PLANE_FIELDS(VALUE, FLAG)                                          \
  VALUE(name)                                                                  \
  VALUE(bits)                                                                  \
  VALUE(access)                                                                \
  VALUE(group)                                                                 \
  VALUE(history)                                                               \
  VALUE(per)                                                                   \
  VALUE(rows)                                                                  \
  FLAG(transposed)                                                             \
  VALUE(role)                                                                  \
  VALUE(kind)                                                                  \
  VALUE(type)                                                                  \
  FLAG(visible)                                                                \
  FLAG(persistent)                                                             \
  VALUE(doc)                                                                   \
  VALUE(external)

/// Stands for all rows or all columns of a tensor in a tdm_plane_sharing.
#define TDM_WHOLE_AXIS (INT64_C(1) << 62)

/// The elements that share an entry of a plane.
typedef struct tdm_plane_sharing {
  /// The numbers of consecutive rows and columns that share an entry, or
  /// TDM_WHOLE_AXIS; the last entry of an axis may have fewer. In a plane per
  /// column \c rows is 0, and in a plane per row \c columns is 0: that extent
  /// does not change the number of entries.
  int64_t rows, columns;
  /// The number of values in each entry: 1, or the length of the history.
  int64_t values;
  /// The elements in words: "each 128", "each 64x64", "each 128 rows", "each
  /// row", "the tensor"; empty if each element has an entry of its own.
  char text[32];
} tdm_plane_sharing;

/// Stores in \p sharing which elements share an entry of \p plane.
TDM_API void tdm_plane_get_sharing(const tdm_plane_desc *plane,
                                   tdm_plane_sharing *sharing);

/// Returns the number of elements that share an entry of a plane: 1 if each
/// element has its own, or 0 if the number depends on the size of the tensor
/// because rows, columns or the whole tensor share an entry.
TDM_API int64_t tdm_plane_elements_per_entry(const tdm_plane_desc *plane);

/// Returns the length of a plane's array, in elements of the array, for a
/// tensor with \p rows rows and \p columns columns: one value or more for each
/// entry. Pass one row for a tensor of a kernel that is not a matrix kernel.
TDM_API int64_t tdm_plane_num_entries(const tdm_plane_desc *plane, int64_t rows,
                                      int64_t columns);

/// One hyperparameter and its domain. NaN lies outside of every domain.
typedef struct tdm_hyper_desc {
  /// The name that messages use, such as "lr".
  const char *name;
  /// The lower end of the domain; may be -infinity.
  double min;
  /// The upper end of the domain; may be +infinity.
  double max;
  /// Nonzero if the domain excludes \c min itself.
  uint32_t min_open;
  /// Nonzero if the domain excludes \c max itself.
  uint32_t max_open;
  /// Positive values below this one are refused although zero is not, for
  /// example an epsilon that would round to zero in the kernel's format. 0 sets
  /// no bound.
  double min_positive;
  /// For hosts: nonzero if a launch may use \c default_value when the caller
  /// passes no value.
  uint32_t has_default;
  double default_value;
} tdm_hyper_desc;

/// The default is not in the list, since a package stores it only if there is
/// one.
#define TDM_HYPER_FIELDS(VALUE, FLAG)                                          \
  VALUE(name)                                                                  \
  VALUE(min)                                                                   \
  VALUE(max)                                                                   \
  FLAG(min_open)                                                               \
  FLAG(max_open)                                                               \
  VALUE(min_positive)

/// The kinds of reductions, which combine the partial results in the chunks'
/// slots: the maximum or minimum of 32-bit unsigned integers, or the sum of
/// floats, added as a balanced binary tree over the chunks as in
/// tdm_plan_metrics.
#define TDM_REDUCTION_KINDS(VALUE)                                             \
  VALUE(TDM_REDUCTION_MAX, max)                                                \
  VALUE(TDM_REDUCTION_MIN, min)                                                \
  VALUE(TDM_REDUCTION_SUM, sum)
typedef enum tdm_reduction_kind {
  TDM_REDUCTION_KINDS(TDM_ENUMERATOR)
} tdm_reduction_kind;

/// The elements that a reduction combines: those of a tensor, of all tensors,
/// or of each row, column or block of a matrix. There are no sums over blocks.
#define TDM_SCOPES(VALUE)                                                      \
  VALUE(TDM_SCOPE_TENSOR, tensor)                                              \
  VALUE(TDM_SCOPE_MODEL, model)                                                \
  VALUE(TDM_SCOPE_ROW, row)                                                    \
  VALUE(TDM_SCOPE_COLUMN, column)                                              \
  VALUE(TDM_SCOPE_BLOCK, block)
typedef enum tdm_scope { TDM_SCOPES(TDM_ENUMERATOR) } tdm_scope;

/// A reduction. The phases after its own can read its total.
typedef struct tdm_reduction_desc {
  tdm_reduction_kind kind;
  /// The phase that computes the partial results: the index of an entry in
  /// \c reduction_entries, or num_reduction_entries for \c entry.
  uint32_t phase;
  tdm_scope scope;
} tdm_reduction_desc;

#define TDM_REDUCTION_FIELDS(VALUE, FLAG)                                      \
  VALUE(kind)                                                                  \
  VALUE(phase)                                                                 \
  VALUE(scope)

/// A step that the host computes (tdm_plan_set_external).
typedef struct tdm_external_desc {
  /// The name that messages use, such as "orthogonalize".
  const char *name;
  /// The index in \c reduction_entries of the phase that it follows.
  uint32_t phase;
} tdm_external_desc;

#define TDM_EXTERNAL_FIELDS(VALUE, FLAG)                                       \
  VALUE(name)                                                                  \
  VALUE(phase)

/// One integer argument, such as the step.
typedef struct tdm_integer_desc {
  /// The name that messages use.
  const char *name;
  /// The least value allowed.
  int64_t min;
  /// For hosts: TDM_ROLE_STEP or TDM_ROLE_SEED.
  tdm_role kind;
} tdm_integer_desc;

#define TDM_INTEGER_FIELDS(VALUE, FLAG)                                        \
  VALUE(name)                                                                  \
  VALUE(min)                                                                   \
  VALUE(kind)

/// The description of a compiled kernel from which the runtime creates a
/// tdm_kernel. Everything that it points to is copied, but the code of \c entry
/// and \c prologue must outlive the kernel and its plans.
typedef struct tdm_kernel_desc {
  /// sizeof(tdm_kernel_desc).
  size_t struct_size;
  /// The name that messages use.
  const char *name;
  /// The number of planes of each tensor.
  uint32_t num_planes;
  /// The number of hyperparameters in a row.
  uint32_t num_hypers;
  /// The number of integers in a row.
  uint32_t num_integers;
  /// The number of 32-bit scalars in a row that the prologue computes.
  uint32_t num_scalars;
  /// The number of metrics: doubles that the kernel writes for each chunk. At
  /// most 4096.
  uint32_t workspace_doubles_per_chunk;
  /// The planes, in the order of a tensor record.
  const tdm_plane_desc *planes;
  /// The hyperparameters, in the order of a row.
  const tdm_hyper_desc *hypers;
  /// The integers, in the order of a row.
  const tdm_integer_desc *integers;
  /// The compiled function of the main launch, which runs over chunks.
  tdm_cpu_entry entry;
  /// The compiled scalar prologue; may be NULL if \c num_scalars is 0.
  tdm_cpu_prologue prologue;
  /// The functions of the launches before the main one. Each runs over all
  /// chunks, and the next one starts after all chunks are done.
  const tdm_cpu_entry *reduction_entries;
  uint32_t num_reduction_entries;
  /// The reductions, in the order of a chunk's slots and of a tensor's totals.
  uint32_t num_reductions;
  const tdm_reduction_desc *reductions;
  /// Runs after the last phase over the tensors [chunk_begin, chunk_end), not
  /// over chunks; NULL if the kernel has no such part.
  tdm_cpu_entry epilogue;
  /// Nonzero for a matrix kernel, which uses the rows and columns of tensors.
  /// It records no metrics.
  uint32_t matrix;
  /// The tdm_granularity that each reduction entry runs over; NULL if all of
  /// them run over elements. \c entry always runs over elements.
  const uint32_t *reduction_granularities;
  /// Run before \c epilogue over the rows and the columns of all tensors; NULL
  /// if the kernel has no such part.
  tdm_cpu_entry epilogue_rows;
  tdm_cpu_entry epilogue_columns;
  /// The number of rows, and of columns, in a block of a matrix kernel: a power
  /// of two from 16 to 256, or 0 if it has no blocks.
  uint32_t block;
  /// Run before \c epilogue over the blocks of all tensors; NULL if the kernel
  /// has no such part.
  tdm_cpu_entry epilogue_blocks;
  /// One value for each phase (the reduction entries, then \c entry), nonzero
  /// if the phase reads only those results of earlier phases in its launch that
  /// belong to its own rows and blocks. The runtime may then run it over some
  /// rows as soon as the phase before it has finished them. Both phases run
  /// over the elements of a matrix. NULL if no phase has this property.
  const uint32_t *fused_with_previous;
  /// For hosts: nonzero if the graph itself does not use rows and columns;
  /// those of a matrix then affect only scales.
  uint32_t flat_graph;
  /// The steps that the host computes, by ascending phase.
  uint32_t num_externals;
  const tdm_external_desc *externals;
} tdm_kernel_desc;

/// The fields of a tdm_kernel_desc, except for code, lists and their lengths.
#define TDM_KERNEL_DESC_FIELDS(VALUE, FLAG)                                    \
  VALUE(num_scalars)                                                           \
  VALUE(workspace_doubles_per_chunk)                                           \
  FLAG(matrix)                                                                 \
  VALUE(block)                                                                 \
  FLAG(flat_graph)

/// A compiled kernel with its checked description. Immutable, so that any
/// number of threads may use it.
typedef struct tdm_kernel tdm_kernel;

/// Checks \p desc and stores a new kernel in \p kernel.
TDM_API tdm_status tdm_kernel_create(const tdm_kernel_desc *desc,
                                     tdm_kernel **kernel);

/// The kind of an image that is an ELF shared library for a CPU.
#define TDM_IMAGE_LIBRARY "library"

/// All code of a kernel for one target.
typedef struct tdm_image {
  /// The format of the bytes, by which drivers recognize an image:
  /// TDM_IMAGE_LIBRARY, for example.
  const char *kind;
  /// The instruction set or chip: "x86-64-v3", "sm_90".
  const char *target;
  const void *data;
  size_t size;
  /// The SHA-256 of the data, 32 bytes, which is checked when the image is
  /// loaded; NULL to skip the check.
  const uint8_t *sha256;
  /// For hosts: the version of the assembler of machine code for a GPU, such as
  /// "13.0.88"; empty or NULL if it is unknown and for other images.
  const char *assembler;
  /// The assembler's optimization level, 0 to 3; 0 for other images.
  uint32_t level;
} tdm_image;

/// A function in a kernel's images, and the units that it runs over.
typedef struct tdm_part_info {
  const char *entry;
  tdm_granularity per;
  /// For a phase, as in tdm_kernel_desc; 0 for other parts.
  uint32_t fused_with_previous;
} tdm_part_info;

#define TDM_PART_FIELDS(VALUE, FLAG)                                           \
  VALUE(entry)                                                                 \
  VALUE(per)                                                                   \
  FLAG(fused_with_previous)

/// Returns the target of the image that \p kernel was loaded from, such as
/// "x86-64-v3", or NULL for one from tdm_kernel_create. It lives as long as the
/// kernel.
TDM_API const char *tdm_kernel_target(const tdm_kernel *kernel);

/// Destroys \p kernel. Plans made from it stay usable. NULL is allowed.
TDM_API void tdm_kernel_destroy(tdm_kernel *kernel);

//===----------------------------------------------------------------------===//
// Plans
//===----------------------------------------------------------------------===//

/// The shards of a tensor that is spread over several ranks. Each shard has
/// whole rows, in their order; a tensor of one row may be cut anywhere.
typedef struct tdm_sharding {
  /// The length of a row of the unsharded tensor, in elements.
  int64_t row_length;
  /// The number of shards, some of which may be empty, and the index of the
  /// shard that this launch's tensor is.
  int64_t num_shards, shard;
  /// The index of the first element of each shard, followed by the number of
  /// elements of the unsharded tensor: num_shards + 1 values, the first of
  /// which is 0. They are multiples of the row length if the tensor has several
  /// rows.
  const int64_t *starts;
  /// The group of ranks that hold the shards, identified by a number of the
  /// host's choice; 0 if there is only one group.
  int64_t group;
} tdm_sharding;

/// One tensor of a launch, or one shard of it. A tensor without elements is
/// allowed and needs no planes.
typedef struct tdm_tensor {
  /// The number of rows. A vector is one row.
  int64_t rows;
  /// The number of columns. Groups of elements that share an entry of a plane
  /// start anew in each row.
  int64_t columns;
  /// The index of element 0 in the unsharded tensor. It is a multiple of every
  /// plane's group or, if the number of columns is not, of the number of
  /// columns.
  int64_t first;
  /// The tensor's key for the random number generator.
  int64_t key;
  /// The row of hyperparameters and integers that applies to this tensor.
  int64_t scalar_row;
  /// One pointer per plane of the kernel, each to tdm_plane_num_entries
  /// elements: one for each element, row or column, or for each group of them,
  /// the last of which may be shorter.
  void *const *planes;
  /// The sharding of a tensor whose values the kernel reduces; NULL for a whole
  /// tensor and for a kernel without reductions. It is copied. Entries per
  /// tensor or per column are then the same on all ranks.
  const tdm_sharding *sharding;
} tdm_tensor;

/// The report on a launch.
typedef struct tdm_launch_info {
  /// sizeof(tdm_launch_info), set by the caller.
  size_t struct_size;
  /// TDM_FLAG_* bits that the kernel raised.
  uint32_t flags;
  /// The number of threads that took part.
  uint32_t threads;
  /// The number of chunks processed.
  int64_t chunks;
} tdm_launch_info;

/// A kernel bound to a list of tensors. Only one thread at a time may use a
/// plan; a call from a second one fails with TDM_INVALID_STATE. Different plans
/// are independent.
typedef struct tdm_plan tdm_plan;

/// Binds \p kernel to \p count tensors. The tensor list is copied. The planes
/// are not; they must stay valid as long as the plan is launched with them.
TDM_API tdm_status tdm_plan_create(const tdm_kernel *kernel,
                                   const tdm_tensor *tensors, int64_t count,
                                   tdm_plan **plan);

/// Replaces the tensors of \p plan. A list equal to the current one costs only
/// a comparison; one with the same sizes allocates nothing and keeps the
/// chunks.
TDM_API tdm_status tdm_plan_update(tdm_plan *plan, const tdm_tensor *tensors,
                                   int64_t count);

/// Sums \p words elementwise over the ranks of \p group (tdm_sharding) as
/// unsigned 32-bit integers, in place. At most one rank has a nonzero value for
/// each word. Returns 0 on success and another number on failure. \p host is
/// the pointer that the caller registered.
typedef int (*tdm_exchange_fn)(void *host, int64_t group, uint32_t *words,
                               size_t count);

/// Sets the function through which ranks exchange partial results of the
/// reductions of sharded tensors. Launches and tdm_plan_metrics call
/// \p exchange on their thread, once for each group in ascending order; every
/// rank makes the same number of calls with the same numbers of words. All
/// totals, including those over all tensors, then have the bits of a launch
/// over the unsharded tensors. Ranks must pass their tensors in the same order,
/// and each rank has a shard of every tensor, which may be empty. If
/// \p exchange fails, so does the launch, with TDM_EXCHANGE_ERROR, and the
/// contents of the arrays are unspecified. If it is NULL, the initial value,
/// sharded tensors cannot be reduced. On a GPU, launches over sharded tensors
/// wait for the device between phases; this includes tdm_plan_launch_async,
/// which then cannot be captured.
TDM_API tdm_status tdm_plan_set_exchange(tdm_plan *plan,
                                         tdm_exchange_fn exchange, void *host);

/// Computes external step \p external of the kernel for all tensors of the
/// plan, and returns 0, or another number on failure. \p host is the pointer
/// that the caller registered. On a GPU the work is to be enqueued on \p
/// stream, a CUstream that may be capturing; on a CPU it is to be done on
/// return.
typedef int (*tdm_external_fn)(void *host, uint32_t external, void *stream);

/// Sets the function for external steps, which runs on the launch's thread
/// between phases. If it fails, the launch fails with TDM_EXCHANGE_ERROR and no
/// state changes. Without one (NULL, initially) no kernel with such steps runs.
/// A received plane may be the array of a sent one of its tensor and type.
TDM_API tdm_status tdm_plan_set_external(tdm_plan *plan,
                                         tdm_external_fn external, void *host);

/// Runs the kernel once over all tensors and waits for it. \p hypers has
/// \p rows rows of num_hypers doubles, and \p integers the same number of rows
/// of num_integers values; rows that no tensor uses are checked too. \p threads
/// includes the calling thread; 0 means one per core, and results do not depend
/// on it. \p info may be NULL. The call allocates memory or starts threads only
/// if it has more rows or threads than any call before. On a GPU it is
/// tdm_plan_launch_async on the default stream followed by a wait; \p threads
/// is ignored.
TDM_API tdm_status tdm_plan_launch(tdm_plan *plan, const double *hypers,
                                   const int64_t *integers, int64_t rows,
                                   int32_t threads, tdm_launch_info *info);

/// Calls \p work with \p context on the calling thread and on up to
/// \p threads - 1 others, in any order, and returns after all calls have
/// returned. Each call works until nothing is left, so one call is enough.
/// \p host is the pointer that the caller registered.
typedef void (*tdm_parallel_fn)(void *host, void (*work)(void *context),
                                void *context, int32_t threads);

/// Makes multithreaded launches on the CPU use threads of the host program; a
/// second pool would compete with them. \p parallel may be called from several
/// threads at once, until the process ends. If it is NULL, as initially and in
/// the child of a fork, launches use the runtime's own threads. The setting is
/// global to the process. OpenMP's GOMP_parallel can serve.
TDM_API tdm_status tdm_use_threads(tdm_parallel_fn parallel, void *host);

/// The arguments of a launch on a GPU.
typedef struct tdm_async_args {
  /// sizeof(tdm_async_args).
  size_t struct_size;
  /// The CUstream to launch on; NULL is the default stream.
  void *stream;
  /// As in tdm_plan_launch. They are copied before the call returns, unless
  /// they are on the device.
  const double *hypers;
  const int64_t *integers;
  int64_t rows;
  /// Nonzero if \c hypers and \c integers point to the device's memory. They
  /// are then read when the launch runs, and their domains are not checked.
  uint32_t on_device;
  /// A 32-bit word in the device's memory, or NULL. The launch is skipped if
  /// the word is nonzero when the launch runs.
  const void *skip;
  /// Two 32-bit words in the device's memory, or NULL. If given, the launch is
  /// not skipped: it sets the first word to that of \c skip, or to 0 if there
  /// is none, and raises its flags there; others can take it as \c skip.
  void *flags;
} tdm_async_args;

/// Enqueues a launch of the kernel over all tensors on the stream, and does not
/// wait for it. Launches of a plan share its memory, so the caller must order
/// launches on different streams. The first launch after an update also copies
/// the tables on its stream. While the stream is captured, arguments must be on
/// the device; the captured launch keeps the tensors that the plan has now, and
/// the plan must live as long as the graph.
TDM_API tdm_status tdm_plan_launch_async(tdm_plan *plan,
                                         const tdm_async_args *args);

/// Waits for the device and stores the flags of the latest launch in \p flags.
TDM_API tdm_status tdm_plan_flags(tdm_plan *plan, uint32_t *flags);

/// Selects the sum over all tensors in tdm_plan_metrics.
#define TDM_ALL_TENSORS (-1)

/// Stores in \p values the metrics of the latest launch for tensor number
/// \p tensor, or for TDM_ALL_TENSORS. \p count must be the kernel's
/// workspace_doubles_per_chunk. Values are added as balanced binary trees,
/// neighbours first and padded with -0.0 to a power of two: over the chunks of
/// a tensor, then over the tensors. The metrics of a tensor without elements
/// are -0.0. A NaN is returned as 0x7FF8000000000000.
TDM_API tdm_status tdm_plan_metrics(tdm_plan *plan, int64_t tensor,
                                    double *values, int64_t count);

/// Stores in \p total the sum number \p reduction, over a tensor or the model,
/// that the latest launch computed for \p tensor, after waiting for the device.
TDM_API tdm_status tdm_plan_sum(tdm_plan *plan, int64_t tensor,
                                int64_t reduction, float *total);

/// Destroys \p plan, which no thread may be using. NULL is allowed.
TDM_API void tdm_plan_destroy(tdm_plan *plan);

#ifdef __cplusplus
}
#endif

#endif // TANDEM_RUNTIME_TANDEM_RUNTIME_H
