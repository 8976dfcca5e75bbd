#include "kernels/launch.h"

#include <fmt/format.h>

#include <cstring>
#include <limits>
#include <stdexcept>

namespace burnish::kernels {

namespace {

/// Takes the next word of a list off its front.
std::string_view next_word(std::string_view& list) {
  auto word = list.substr(0, list.find(' '));
  list.remove_prefix(std::min(list.size(), word.size() + 1));
  return word;
}

[[noreturn]] void refuse(const Binary& kernel, const std::string& why) {
  throw std::logic_error(fmt::format("kernel {}: {}", kernel.name, why));
}

/// The bits that the kernel reads at the argument's place. `kind` as in Binary::arguments.
uint64_t bits_of(const Binary& kernel, const Argument& argument, char kind) {
  uint64_t bits = 0;
  const bool multiple = kind == 'P' || kind == 'I';
  auto check_multiple = [&](uint64_t value) {
    if (multiple && value % 16 != 0) refuse(kernel, fmt::format("{} is {}, no multiple of 16", argument.name, value));
  };
  if (const auto* tensor = std::get_if<at::Tensor>(&argument.value); tensor != nullptr && (kind == 'p' || kind == 'P')) {
    if (tensor->defined() && !tensor->is_meta()) bits = reinterpret_cast<uintptr_t>(tensor->data_ptr());
    check_multiple(bits);
  } else if (const auto* whole = std::get_if<int64_t>(&argument.value); whole != nullptr && (kind == 'i' || kind == 'I' || kind == 'u')) {
    const int64_t most = kind == 'u' ? std::numeric_limits<uint32_t>::max() : std::numeric_limits<int32_t>::max();
    if (*whole < 0 || *whole > most) refuse(kernel, fmt::format("{} is {}", argument.name, *whole));
    check_multiple(static_cast<uint64_t>(*whole));
    bits = static_cast<uint64_t>(*whole);
  } else if (const auto* number = std::get_if<double>(&argument.value); number != nullptr && kind == 'f') {
    auto narrow = static_cast<float>(*number);
    std::memcpy(&bits, &narrow, sizeof(narrow));
  } else {
    refuse(kernel, fmt::format("{} is of another kind than '{}'", argument.name, kind));
  }
  return bits;
}

}  // namespace

PackedArguments::PackedArguments(const Binary& kernel, const std::vector<Argument>& arguments) {
  auto list = kernel.arguments;
  for (const auto& argument : arguments) {
    auto word = next_word(list);
    auto name = word.substr(0, word.find(':'));
    if (name != argument.name) refuse(kernel, fmt::format("its argument {} is '{}', not '{}'", values_.size(), name, argument.name));
    values_.push_back(bits_of(kernel, argument, word.back()));
  }
  if (!list.empty()) refuse(kernel, fmt::format("arguments are missing: {}", list));
  values_.insert(values_.end(), 2, 0);  // Triton's scratch memory, which tools/compile_kernels.py takes care that no kernel has
  for (auto& value : values_) places_.push_back(&value);
}

std::string_view kernel_dtype(c10::ScalarType dtype) {
  if (dtype == at::kBFloat16) return "bf16";
  return dtype == at::kFloat ? "fp32" : "";
}

std::string kernel_name(std::string_view function, std::string_view dtype, std::initializer_list<int64_t> constants) {
  auto name = fmt::format("{}.{}", function, dtype);
  for (auto constant : constants) name += fmt::format(".{}", constant);
  return name;
}

int64_t block_of_row(int64_t width) {
  for (int64_t block : {2048, 4096, 8192}) {
    if (width <= block) return block;
  }
  return 0;
}

bool is_aligned(const at::Tensor& tensor) {
  if (tensor.is_meta()) return tensor.storage_offset() * static_cast<int64_t>(tensor.element_size()) % 16 == 0;
  return reinterpret_cast<uintptr_t>(tensor.const_data_ptr()) % 16 == 0;
}

at::Tensor contiguous_aligned(const at::Tensor& tensor) {
  auto whole = tensor.contiguous();
  return is_aligned(whole) ? whole : whole.clone();
}

}  // namespace burnish::kernels
