#pragma once
#include <ATen/core/Tensor.h>

#include <array>
#include <cstdint>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "kernels/binary.h"

// How operators run kernels that were compiled ahead of time (docs/decisions/0030).
namespace burnish::kernels {

/// An argument of a kernel, by the name that its source has for it.
struct Argument {
  std::string_view name;
  std::variant<at::Tensor, int64_t, double> value;
};

/// Arguments as a launch wants them: the places of the values, in the kernel's order, then two null pointers for scratch memory.
class PackedArguments {
 public:
  /// Throws std::logic_error unless names, kinds and multiples are those of the kernel, and integers fit theirs.
  PackedArguments(const Binary& kernel, const std::vector<Argument>& arguments);

  /// The addresses of the arguments, as many as the kernel has and two more; they point into this object.
  void** places() { return places_.data(); }
  size_t size() const { return places_.size(); }

 private:
  std::vector<uint64_t> values_;
  std::vector<void*> places_;
};

/// The kernel of this name for the GPU that tensors of `device` are on (the meta device: on which they would be; without a GPU at hand one
/// of compute capability 8.0), or nullptr: the operator then takes ATen's path. Says once when a GPU runs none of the kernels.
const Binary* find_kernel(std::string_view name, c10::Device device);

/// Runs grid[0] · grid[1] · grid[2] programs of the kernel on the current stream of the device that the first tensor is on; with tensors on
/// the meta device only checks the arguments. std::logic_error as PackedArguments, and where CUDA refuses the launch std::runtime_error.
void launch(const Binary& kernel, std::array<int64_t, 3> grid, const std::vector<Argument>& arguments);

/// Returns the word by which kernels' names spell a dtype that they compute in, or nothing.
std::string_view kernel_dtype(c10::ScalarType dtype);

/// Returns a kernel's name: "operator.function.dtype.constant.constant".
std::string kernel_name(std::string_view function, std::string_view dtype, std::initializer_list<int64_t> constants);

/// The least block of those that kernels over rows are compiled for that holds a row, or 0.
int64_t block_of_row(int64_t width);

/// Tells whether numbers begin at a multiple of 16 bytes, as vector loads want them.
bool is_aligned(const at::Tensor& tensor);

/// The tensor, or a copy that is contiguous and aligned.
at::Tensor contiguous_aligned(const at::Tensor& tensor);

}  // namespace burnish::kernels
