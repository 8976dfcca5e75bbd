#pragma once
#include <cstddef>
#include <span>
#include <string_view>

namespace burnish::kernels {

/// A kernel of src/kernels/*/triton.py, compiled ahead of time by tools/compile_kernels.py.
struct Binary {
  std::string_view name;  ///< operator, function, dtype and constants: "modulated_norm.forward.bf16.4096"
  const char* symbol;     ///< the function's symbol in the image
  int capability;         ///< compute capability that it was compiled for: 90 for 9.0
  int num_warps;          ///< threads of a program, by 32
  int shared_bytes;       ///< shared memory of a program
  std::string_view
      arguments;  ///< names and kinds, "x:P rows:i": p a pointer, i an int32, u a uint32, f an fp32; in capitals a multiple of 16
  const unsigned char* image;
  size_t size;
};

/// Lists all kernels that this program holds; none in a build without CUDA.
std::span<const Binary> binaries();

/// Finds the kernel of this name that a GPU of this compute capability runs, or nullptr. Code for 8.x runs on GPUs of its major number from
/// x on; from 9.0 on Triton uses what only that very GPU has.
const Binary* choose(std::span<const Binary> list, std::string_view name, int capability);

/// Tells whether a GPU of this compute capability runs any of them.
bool runs_any(std::span<const Binary> list, int capability);

}  // namespace burnish::kernels
