#pragma once

/// A function that is compiled once for each instruction set that CPUs in use have; the loader picks the best at start. Its loops are
/// written for `#pragma omp simd`.
#if defined(__x86_64__) && defined(__GNUC__) && !defined(__clang__)
#define BURNISH_SIMD __attribute__((target_clones("arch=x86-64-v4", "arch=x86-64-v3", "default")))
#else
#define BURNISH_SIMD
#endif
