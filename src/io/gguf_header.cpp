#include "io/gguf_header.h"

#include <algorithm>
#include <cstring>
#include <type_traits>

#include "base/input_error.h"
#include "base/number.h"

namespace burnish::io {

namespace {

struct NumberType {
  uint32_t id;
  std::string_view name;
  std::optional<c10::ScalarType> dtype = {};
  std::optional<CodeKind> codes = {};  ///< neither: the type is known by its name alone
};
// ggml.h, enum ggml_type.
constexpr NumberType kTypes[] = {
    {0, "F32", c10::kFloat},
    {1, "F16", c10::kHalf},
    {2, "Q4_0", {}, CodeKind::q4_0},
    {3, "Q4_1", {}, CodeKind::q4_1},
    {6, "Q5_0", {}, CodeKind::q5_0},
    {7, "Q5_1", {}, CodeKind::q5_1},
    {8, "Q8_0", {}, CodeKind::q8_0},
    {9, "Q8_1"},
    {10, "Q2_K", {}, CodeKind::q2_k},
    {11, "Q3_K", {}, CodeKind::q3_k},
    {12, "Q4_K", {}, CodeKind::q4_k},
    {13, "Q5_K", {}, CodeKind::q5_k},
    {14, "Q6_K", {}, CodeKind::q6_k},
    {15, "Q8_K"},
    {16, "IQ2_XXS"},
    {17, "IQ2_XS"},
    {18, "IQ3_XXS"},
    {19, "IQ1_S"},
    {20, "IQ4_NL", {}, CodeKind::iq4_nl},
    {21, "IQ3_S"},
    {22, "IQ2_S"},
    {23, "IQ4_XS", {}, CodeKind::iq4_xs},
    {24, "I8", c10::kChar},
    {25, "I16", c10::kShort},
    {26, "I32", c10::kInt},
    {27, "I64", c10::kLong},
    {28, "F64", c10::kDouble},
    {29, "IQ1_M"},
    {30, "BF16", c10::kBFloat16},
    {34, "TQ1_0"},
    {35, "TQ2_0"},
    {39, "MXFP4"},
    {40, "NVFP4"},
};
constexpr uint64_t kMostSides = 5;             // one more than GGML_MAX_DIMS: ComfyUI-GGUF writes kernels of clips as they are
constexpr uint64_t kMostNumbers = 1ull << 40;  // of a tensor
constexpr uint64_t kMostListed = 16;
constexpr int kMostDepth = 4;  // of lists in lists

/// Reads values one after another, within the file's bytes.
class Reader {
 public:
  Reader(std::string_view bytes, std::string_view file) : bytes_(bytes), file_(file) {}

  uint64_t place() const { return at_; }
  uint64_t left() const { return bytes_.size() - at_; }
  template <class T>
  T number() {
    T value;
    std::memcpy(&value, take(sizeof(T)).data(), sizeof(T));
    return value;
  }
  std::string_view text() { return take(number<uint64_t>()); }
  std::string_view take(uint64_t count) {
    if (count > left())
      data_error("io", "{}: its GGUF header wants {} bytes at byte {}, and the file has {}; it is cut off or damaged", file_, count, at_,
                 bytes_.size());
    auto part = bytes_.substr(at_, count);
    at_ += count;
    return part;
  }
  std::string_view file() const { return file_; }

 private:
  std::string_view bytes_, file_;
  uint64_t at_ = 0;
};

template <class T>
std::string number_text(Reader& from) {
  auto value = from.number<T>();
  if constexpr (std::is_same_v<T, bool>) return value ? "true" : "false";
  else return fmt::format("{}", value);
}

/// A value of metadata as text; nothing for a long list.
std::optional<std::string> value_text(Reader& from, uint32_t type, int depth) {
  switch (type) {
    case 0: return number_text<uint8_t>(from);
    case 1: return number_text<int8_t>(from);
    case 2: return number_text<uint16_t>(from);
    case 3: return number_text<int16_t>(from);
    case 4: return number_text<uint32_t>(from);
    case 5: return number_text<int32_t>(from);
    case 6: return number_text<float>(from);
    case 7: return from.number<uint8_t>() != 0 ? "true" : "false";
    case 8: return std::string(from.text());
    case 10: return number_text<uint64_t>(from);
    case 11: return number_text<int64_t>(from);
    case 12: return number_text<double>(from);
    case 9: break;
    default: data_error("io", "{}: its GGUF header has a value of the unknown type {}; it is damaged or newer", from.file(), type);
  }
  if (depth >= kMostDepth) data_error("io", "{}: its GGUF header nests lists deeper than {}", from.file(), kMostDepth);
  const auto of = from.number<uint32_t>();
  const auto count = from.number<uint64_t>();
  if (count > from.left())
    data_error("io", "{}: its GGUF header has a list of {} values, more than the file has bytes; it is damaged", from.file(), count);
  std::string list;
  const bool is_shown = of != 8 && of != 9 && count <= kMostListed;
  for (uint64_t i = 0; i < count; ++i) {
    auto value = value_text(from, of, depth + 1);
    if (is_shown) list += (i > 0 ? "," : "") + *value;
  }
  return is_shown ? std::optional(list) : std::nullopt;
}

const NumberType& type_of(uint32_t id, std::string_view name, std::string_view file) {
  const auto* type = std::ranges::find(kTypes, id, &NumberType::id);
  const bool is_known = type != std::end(kTypes);
  if (!is_known || (!type->dtype && !type->codes))
    data_error(
        "io",
        "{}: the tensor '{}' is in {}, which is not read here; take the file in Q8_0, Q6_K, Q5_K, Q4_K, Q3_K, Q2_K, Q5_0, Q4_0, BF16 "
        "or F16",
        file, name, is_known ? std::string(type->name) : fmt::format("GGUF's type {}", id));
  return *type;
}

/// A tensor's row in the header; its place counts from the start of the data.
TensorInfo read_tensor(Reader& from, std::string_view name) {
  const auto num_sides = from.number<uint32_t>();
  if (num_sides > kMostSides)
    data_error("io", "{}: the tensor '{}' has {} sides, and {} are read at most", from.file(), name, num_sides, kMostSides);
  std::vector<int64_t> shape(num_sides);
  uint64_t numbers = 1;
  for (auto& side : shape) {
    const auto length = from.number<uint64_t>();
    if (length == 0 || length > kMostNumbers / numbers)
      data_error("io", "{}: the tensor '{}' has a side of {}; the file is damaged", from.file(), name, length);
    numbers *= length;
    side = static_cast<int64_t>(length);
  }
  std::ranges::reverse(shape);  // the side that is innermost stands first in the file
  const auto& type = type_of(from.number<uint32_t>(), name, from.file());
  TensorInfo info{type.dtype.value_or(c10::kByte), shape, from.number<uint64_t>(), 0};
  uint64_t bytes = numbers * c10::elementSize(info.dtype);
  if (type.codes) {
    const auto& block = code_block(*type.codes);
    if (shape.empty() || shape.back() % block.numbers != 0)
      data_error("io", "{}: the tensor '{}' has rows of {} numbers, which are no whole blocks of {}", from.file(), name,
                 shape.empty() ? 1 : shape.back(), type.name);
    info.shape.back() = shape.back() / block.numbers * block.bytes;
    bytes = numbers / static_cast<uint64_t>(block.numbers) * static_cast<uint64_t>(block.bytes);
    info.codes = codes_on_meta(*type.codes, {1, static_cast<int64_t>(numbers)});
  }
  info.end = bytes;
  return info;
}

uint64_t alignment_in(const std::map<std::string, std::string>& metadata, std::string_view file) {
  auto said = metadata.find("general.alignment");
  if (said == metadata.end()) return 32;
  const uint64_t alignment = parse_number<uint32_t>(said->second).value_or(0);
  if (alignment == 0 || (alignment & (alignment - 1)) != 0)
    data_error("io", "{}: its alignment is '{}', and a power of two was expected; it is damaged", file, said->second);
  return alignment;
}

/// Brings places to where the file begins, and looks whether tensors lie within it, apart from each other.
void place(std::map<std::string, TensorInfo>& tensors, uint64_t data, uint64_t alignment, uint64_t size, std::string_view file) {
  std::vector<std::pair<const std::string*, TensorInfo*>> in_order;
  for (auto& [name, info] : tensors) {
    if (data > size || info.begin > size - data || info.end > size - data - info.begin)
      data_error("io", "{}: the tensor '{}' reaches beyond the file's {} bytes; it is cut off or damaged", file, name, size);
    if (info.begin % alignment != 0) data_error("io", "{}: the tensor '{}' does not begin at a multiple of {}", file, name, alignment);
    info.begin += data;
    info.end += info.begin;
    in_order.emplace_back(&name, &info);
  }
  std::ranges::sort(in_order, {}, [](const auto& item) { return item.second->begin; });
  for (size_t i = 1; i < in_order.size(); ++i) {
    if (in_order[i].second->begin < in_order[i - 1].second->end)
      data_error("io", "{}: the tensors '{}' and '{}' overlap; it is damaged", file, *in_order[i - 1].first, *in_order[i].first);
  }
  // Tensors lie one behind the other (ggml's gguf.cpp wants it so): bytes that are none's mean that a type or a side is another.
  for (size_t i = 0; i < in_order.size(); ++i) {
    const auto next = i + 1 < in_order.size() ? in_order[i + 1].second->begin : size;
    if (next - in_order[i].second->end >= alignment)
      data_error("io", "{}: the tensor '{}' has {} bytes, and {} lie up to the next one; its type or its shape is damaged", file,
                 *in_order[i].first, in_order[i].second->end - in_order[i].second->begin, next - in_order[i].second->begin);
  }
}

}  // namespace

GgufHeader GgufHeader::parse(std::string_view file_bytes, std::string_view file) {
  Reader from(file_bytes, file);
  if (file_bytes.size() < 24 || from.take(4) != "GGUF")
    data_error("io", "{} does not begin as a GGUF file; it is damaged or another kind", file);
  const auto version = from.number<uint32_t>();
  if (version != 2 && version != 3)
    data_error("io", "{} is a GGUF file of version {}, and versions 2 and 3 are read, little endian", file, version);
  const auto num_tensors = from.number<uint64_t>(), num_values = from.number<uint64_t>();
  if (num_tensors > from.left() || num_values > from.left())
    data_error("io", "{}: its GGUF header counts {} tensors and {} values, more than the file has bytes; it is damaged", file, num_tensors,
               num_values);
  GgufHeader header;
  for (uint64_t i = 0; i < num_values; ++i) {
    std::string key(from.text());
    const auto type = from.number<uint32_t>();
    if (auto value = value_text(from, type, 0)) header.metadata[key] = *value;
  }
  for (uint64_t i = 0; i < num_tensors; ++i) {
    std::string name(from.text());
    auto info = read_tensor(from, name);
    if (!header.tensors.emplace(name, std::move(info)).second) data_error("io", "{}: its GGUF header names '{}' twice", file, name);
  }
  const auto alignment = alignment_in(header.metadata, file);
  const auto data = (from.place() + alignment - 1) / alignment * alignment;
  place(header.tensors, data, alignment, file_bytes.size(), file);
  return header;
}

}  // namespace burnish::io
