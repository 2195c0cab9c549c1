//===- main.rs - Runs ptx_tests on a sample of its inputs -------*- Rust -*-===//
//
// Part of the Tandem Project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// This file replaces src/main.rs in a scratch copy of ptx_tests, whose
// src/test.rs is changed to call the functions `run_range` and `run_random` of
// this file. All inputs come from the tests' own `generate`, and all verdicts
// from their own `host_verify`. `verification/ptx_tests.py` makes the copy and
// appends the macro `impl_library`.
//
//===----------------------------------------------------------------------===//

#![allow(internal_features, dead_code, unused)]
#![feature(c_size_t, f16, link_llvm_intrinsics)]

use cuda::Cuda;
use rand::SeedableRng;
use std::cell::RefCell;
use std::io::BufRead;
use std::ptr;
use test::{OnDevice, RandomTest, RangeTest, TestCommon, TestError};
use testcase::*;

mod common;
mod cuda;
mod nvrtc;
mod test;
mod testcase;

const GROUP: usize = 128;
const BATCH: u64 = 1 << 16;
const MAX_EXAMPLES: usize = 3;

//===----------------------------------------------------------------------===//
// The report of one test
//===----------------------------------------------------------------------===//

#[derive(Default)]
struct Report {
    /// The PTX of the test, or of each text that must not compile.
    sources: Vec<String>,
    total: u64,
    cases: u64,
    failures: u64,
    examples: Vec<String>,
}

thread_local! {
    static REPORT: RefCell<Report> = RefCell::default();
    /// The maximum number of inputs per test; 0 only lists the sources.
    static COUNT: RefCell<u64> = RefCell::new(0);
}

/// Quotes the tests' texts. They are ASCII, which Rust quotes as JSON does.
fn quote(texts: &[String]) -> String {
    format!("{:?}", texts)
}

fn outcome(result: &Result<(), TestError>) -> String {
    match result {
        Ok(()) => "passed".to_string(),
        Err(TestError::CompilationFail { .. }) => "refused".to_string(),
        Err(TestError::CompilationSuccess { name }) => format!("accepted {name}"),
        Err(TestError::ResultMismatch { .. }) => "failed".to_string(),
        Err(TestError::MissingRunFunction) => "no function".to_string(),
    }
}

//===----------------------------------------------------------------------===//
// Instructions
//===----------------------------------------------------------------------===//

/// Replaces a `set` by the instructions that define it: a comparison without
/// .ftz, the predicate operation and a selection. Returns None for other
/// statements.
fn without_set(statement: &str) -> Option<String> {
    let (opcode, operands) = statement.trim().strip_prefix("set.")?.split_once(' ')?;
    let operands: Vec<_> = operands.split(',').map(str::trim).collect();
    let parts: Vec<_> = opcode.split('.').collect();
    let (result, source) = (parts[parts.len() - 2], parts[parts.len() - 1]);
    let yes = if result == "f32" { "0f3F800000" } else { "0xffffffff" };
    let (d, a, b) = (operands[0], operands[1], operands[2]);
    let combine = match operands.get(3) {
        None => String::new(),
        Some(c) if c.parse::<u32>().is_err() && parts.len() == 4 => {
            format!("{}.pred tandem_p, tandem_p, {c};\n", parts[1])
        }
        Some(_) => return None,
    };
    Some(format!(
        "\n.reg .pred tandem_p;\nsetp.{}.{source} tandem_p, {a}, {b};\n{combine}\
         selp.b32 {d}, {yes}, 0, tandem_p",
        parts[0]
    ))
}

fn rewrite(source: &str) -> String {
    let statements = source.split(';');
    let changed = statements.map(|text| without_set(text).unwrap_or_else(|| text.to_string()));
    changed.collect::<Vec<_>>().join(";")
}

//===----------------------------------------------------------------------===//
// Inputs
//===----------------------------------------------------------------------===//

/// Returns an f16 edge: all signs and exponents, each with significands around
/// which roundings and comparisons change. Pairs of 16 bits use it for both
/// halves.
fn edge16(index: u32) -> u32 {
    const LOW: [u32; 8] = [0, 1, 2, 0x1ff, 0x200, 0x201, 0x3fe, 0x3ff];
    (index >> 3 & 63) << 10 | LOW[(index & 7) as usize]
}
const EDGES16: u64 = 1 << 18;

/// Returns an f32 edge: every sign and exponent with every four leading bits, one
/// more bit, and the two neighbours, which include ties of narrower formats.
fn edge32(index: u32) -> u32 {
    let (top, rest) = (index % (512 * 16), index / (512 * 16));
    (top << 19 | 1 << (rest / 3)).wrapping_add(rest % 3).wrapping_sub(1)
}
const EDGES32: u64 = 512 * 16 * 19 * 3;

/// Maps an index to one of `total` inputs, a power of two. Inputs that are not
/// edges are equally distributed, for any number of them.
fn choose(index: u64, total: u64, count: u64) -> u32 {
    let chosen = if total <= count {
        index as u32
    } else if index < EDGES16 {
        edge16(index as u32 >> 9) << 16 | edge16(index as u32 & 511)
    } else if index < EDGES16 + EDGES32 {
        edge32((index - EDGES16) as u32)
    } else {
        (index as u32).wrapping_mul(0x9e3779b1)
    };
    (chosen as u64 % total) as u32
}

//===----------------------------------------------------------------------===//
// Launches
//===----------------------------------------------------------------------===//

struct Buffer<'a> {
    cuda: &'a Cuda,
    address: u64,
}

impl<'a> Buffer<'a> {
    fn new(cuda: &'a Cuda, bytes: usize) -> Self {
        let mut address = 0;
        unsafe { cuda.cuMemAlloc_v2(&mut address, bytes) }.unwrap();
        Buffer { cuda, address }
    }

    fn holding(cuda: &'a Cuda, data: &[u8]) -> Self {
        let buffer = Buffer::new(cuda, data.len());
        unsafe { cuda.cuMemcpyHtoD_v2(buffer.address, data.as_ptr() as _, data.len()) }.unwrap();
        buffer
    }
}

impl Drop for Buffer<'_> {
    fn drop(&mut self) {
        unsafe { self.cuda.cuMemFree_v2(self.address) }.unwrap();
    }
}

/// A test's module on the device.
struct Loaded<'a> {
    cuda: &'a Cuda,
    module: cuda::CUmodule,
    kernel: cuda::CUfunction,
}

impl<'a> Loaded<'a> {
    fn new(cuda: &'a Cuda, source: &std::ffi::CString) -> Result<Self, TestError> {
        let (mut module, mut kernel) = (ptr::null_mut(), ptr::null_mut());
        unsafe { cuda.cuModuleLoadData(&mut module, source.as_ptr() as _) }.map_err(|code| {
            TestError::CompilationFail { message: code.to_string() }
        })?;
        unsafe { cuda.cuModuleGetFunction(&mut kernel, module, c"run".as_ptr()) }
            .map_err(|_| TestError::MissingRunFunction)?;
        Ok(Loaded { cuda, module, kernel })
    }

    /// Runs one thread per input and returns the outputs.
    fn launch(&self, inputs: &[Vec<u8>], count: usize, output_size: usize) -> Vec<u8> {
        let cuda = self.cuda;
        let blocks = count.div_ceil(GROUP);
        let mut buffers: Vec<_> = inputs.iter().map(|data| Buffer::holding(cuda, data)).collect();
        buffers.push(Buffer::new(cuda, blocks * GROUP * output_size));
        let mut args: Vec<_> = buffers.iter().map(|b| &b.address as *const u64).collect();
        let mut output = vec![0u8; count * output_size];
        let (none, stream) = (ptr::null_mut(), ptr::null_mut());
        let (blocks, threads, args) = (blocks as u32, GROUP as u32, args.as_mut_ptr() as _);
        let source = buffers.last().unwrap().address;
        unsafe {
            cuda.cuLaunchKernel(self.kernel, blocks, 1, 1, threads, 1, 1, 0, stream, args, none)
                .unwrap();
            cuda.cuMemcpyDtoH_v2(output.as_mut_ptr() as _, source, output.len()).unwrap();
        }
        output
    }
}

impl Drop for Loaded<'_> {
    fn drop(&mut self) {
        unsafe { self.cuda.cuModuleUnload(self.module) }.unwrap();
    }
}

fn judge<T: TestCommon>(t: &T, inputs: &[Vec<u8>], outputs: &[Vec<u8>], count: usize) {
    REPORT.with_borrow_mut(|report| {
        for i in 0..count {
            let (input, output) = (T::Input::read(inputs, i), T::Output::read(outputs, i));
            report.cases += 1;
            let Err(expected) = t.host_verify(input, output) else { continue };
            report.failures += 1;
            if report.examples.len() < MAX_EXAMPLES {
                report.examples.push(format!("{input:?}: {output:?}, expected {expected:?}"));
            }
        }
    })
}

/// Runs a test on `cases` inputs that `next` generates.
fn run<T: TestCommon>(
    cuda: &Cuda,
    source: &str,
    t: &T,
    cases: u64,
    mut next: impl FnMut(u64) -> T::Input,
) -> Result<(), TestError> {
    let loaded = Loaded::new(cuda, &std::ffi::CString::new(source).unwrap())?;
    for begin in (0..cases).step_by(BATCH as usize) {
        let count = BATCH.min(cases - begin) as usize;
        let mut inputs = vec![Vec::new(); T::Input::COMPONENTS];
        // Only whole blocks run; the last one is filled by repeating inputs.
        for i in 0..count.div_ceil(GROUP) * GROUP {
            next(begin + (i % count) as u64).write(&mut inputs);
        }
        let output = loaded.launch(&inputs, count, T::Output::size_of());
        judge(t, &inputs, &[output], count);
    }
    Ok(())
}

/// Records the source, and runs the test on up to `COUNT` of `total` inputs.
fn note_or_run<T: TestCommon>(
    ctx: &dyn TestContext,
    t: &T,
    total: u64,
    next: impl FnMut(u64) -> T::Input,
) -> Result<(), TestError> {
    let count = COUNT.with_borrow(|count| *count);
    let source = rewrite(ctx.prepare_test_source(t).unwrap().to_str().unwrap());
    REPORT.with_borrow_mut(|report| {
        report.sources.push(source.clone());
        report.total = total;
    });
    if count == 0 {
        return Err(TestError::MissingRunFunction);
    }
    run(ctx.cuda(), &source, t, count.min(total), next)
}

pub fn run_range<T: RangeTest>(ctx: &dyn TestContext, t: T) -> Result<(), TestError> {
    let total = T::MAX_VALUE as u64 + 1;
    let count = COUNT.with_borrow(|count| *count);
    note_or_run(ctx, &t, total, |i| t.generate(choose(i, total, count)))
}

/// Runs a test on the first inputs of its own random sequence.
pub fn run_random<T: RandomTest>(ctx: &dyn TestContext, t: T) -> Result<(), TestError> {
    let mut rng = rand_xorshift::XorShiftRng::seed_from_u64(test::SEED);
    note_or_run(ctx, &t, 1 << 32, |_| t.generate(&mut rng))
}

//===----------------------------------------------------------------------===//
// All tests
//===----------------------------------------------------------------------===//

fn print(name: &str, result: &Result<(), TestError>, report: &Report, seconds: f64) {
    println!(
        "{{\"name\": {:?}, \"outcome\": {:?}, \"total\": {}, \"cases\": {}, \"failures\": {}, \
         \"seconds\": {:.2}, \"examples\": {}, \"sources\": {}}}",
        name, outcome(result), report.total, report.cases, report.failures, seconds,
        quote(&report.examples), quote(&report.sources)
    );
}

/// DRIVER                lists all tests, with their PTX
/// DRIVER COUNT NAME...  runs tests on at most COUNT inputs each
fn main() {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let fixture = TestFixture { libs: (Cuda::new(args[0].clone()),) };
    let count = args.get(1).map_or(0, |text| text.parse().unwrap());
    COUNT.set(count);
    unsafe { fixture.cuda().cuInit(0) }.unwrap();
    for case in tests() {
        if count > 0 && !args[2..].contains(&case.name) {
            continue;
        }
        REPORT.set(Report::default());
        let begin = std::time::Instant::now();
        let result = (case.test)(&fixture, false);
        let seconds = begin.elapsed().as_secs_f64();
        REPORT.with_borrow(|report| print(&case.name, &result, report, seconds));
    }
}
