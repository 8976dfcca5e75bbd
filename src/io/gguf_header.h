#pragma once
#include <string_view>

#include "io/safetensors_header.h"

namespace burnish::io {

/// The header of a GGUF file (ggml's docs/gguf.md), version 2 or 3, little endian.
struct GgufHeader {
  /// Tensors by name, rows first; bytes count from the start of the file. A tensor in blocks has the kind of its codes, the dtype uint8,
  /// and as its last side the bytes of a row.
  std::map<std::string, TensorInfo> tensors;
  /// Values by key, as text; lists of up to 16 numbers with commas between, longer ones and lists of texts are left out.
  std::map<std::string, std::string> metadata;

  /// Parses the beginning of `file_bytes`, which are all bytes of a file. A data Error names `file` and what is wrong: another magic or
  /// version, a type of numbers that is not read (by its name), counts and places beyond the file, tensors that overlap.
  static GgufHeader parse(std::string_view file_bytes, std::string_view file);
};

}  // namespace burnish::io
