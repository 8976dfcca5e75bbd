#pragma once
#include <bit>
#include <cstdint>
#include <string>

// Fields of a protocol buffer message, as bytes.
namespace burnish::tokenizers {

inline std::string varint(uint64_t value) {
  std::string bytes;
  for (; value >= 0x80; value >>= 7) bytes += static_cast<char>((value & 0x7F) | 0x80);
  return bytes + static_cast<char>(value);
}

inline std::string bytes_field(uint64_t field, const std::string& bytes) { return varint(field << 3 | 2) + varint(bytes.size()) + bytes; }

inline std::string number_field(uint64_t field, uint64_t value) { return varint(field << 3) + varint(value); }

inline std::string float_field(uint64_t field, float value) {
  auto bits = std::bit_cast<uint32_t>(value);
  auto bytes = varint(field << 3 | 5);
  for (int shift = 0; shift < 32; shift += 8) bytes += static_cast<char>(bits >> shift & 0xFF);
  return bytes;
}

}  // namespace burnish::tokenizers
