#include "io/safetensors_header.h"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <set>

#include "base/dtype.h"
#include "base/input_error.h"

namespace burnish::io {

namespace {

struct Dtype {
  const char* name;
  c10::ScalarType type;
};
constexpr Dtype kDtypes[] = {{"F64", c10::kDouble},
                             {"F32", c10::kFloat},
                             {"F16", c10::kHalf},
                             {"BF16", c10::kBFloat16},
                             {"C64", c10::kComplexFloat},
                             {"I64", c10::kLong},
                             {"I32", c10::kInt},
                             {"I16", c10::kShort},
                             {"I8", c10::kChar},
                             {"U64", c10::kUInt64},
                             {"U32", c10::kUInt32},
                             {"U16", c10::kUInt16},
                             {"U8", c10::kByte},
                             {"BOOL", c10::kBool},
                             {"F8_E4M3", c10::kFloat8_e4m3fn},
                             {"F8_E5M2", c10::kFloat8_e5m2},
                             {"F8_E8M0", c10::kFloat8_e8m0fnu}};
constexpr int kMaxDepth = 8;        // the format needs 3
constexpr size_t kMaxNumDims = 64;  // libtorch's own limit

/// A value for a message: as JSON, cut when it is long.
std::string shown(const nlohmann::json& value) {
  if (value.is_structured() && value.size() > kMaxNumDims) return fmt::format("(an {} of {})", value.type_name(), value.size());
  auto text = value.dump(-1, ' ', /*ensure_ascii=*/true);
  return text.size() <= 80 ? text : text.substr(0, 80) + "...";
}

/// Parses with duplicate keys refused: two entries of one name would hide one of them.
nlohmann::json parse_strictly(std::string_view text, std::string_view file) {
  std::vector<std::set<std::string>> open;
  auto watch = [&](int depth, nlohmann::json::parse_event_t event, nlohmann::json& parsed) {
    using Event = nlohmann::json::parse_event_t;
    if (depth > kMaxDepth) data_error("io", "{}: the safetensors header nests deeper than {} levels", file, kMaxDepth);
    if (event == Event::object_start) open.emplace_back();
    if (event == Event::object_end) open.pop_back();
    if (event == Event::key && !open.back().insert(parsed.get<std::string>()).second)
      data_error("io", "{}: the safetensors header names '{}' twice", file, parsed.get<std::string>());
    return true;
  };
  nlohmann::json json;
  try {
    json = nlohmann::json::parse(text, watch);
  } catch (const nlohmann::json::exception&) {
    data_error("io", "{}: the safetensors header is not JSON; the file is damaged or of another kind", file);
  }
  if (!json.is_object()) data_error("io", "{}: the safetensors header is not a JSON object", file);
  return json;
}

c10::ScalarType dtype_of(const nlohmann::json& entry, const std::string& name, std::string_view file) {
  auto it = entry.find("dtype");
  if (it != entry.end() && it->is_string()) {
    for (const auto& d : kDtypes) {
      if (*it == d.name) return d.type;
    }
    data_error("io", "{}: tensor '{}' has the unknown dtype {}", file, name, shown(*it));
  }
  data_error("io", "{}: tensor '{}' has no dtype", file, name);
}

std::vector<int64_t> shape_of(const nlohmann::json& entry, const std::string& name, std::string_view file) {
  auto it = entry.find("shape");
  if (it == entry.end() || !it->is_array()) data_error("io", "{}: tensor '{}' has no shape", file, name);
  std::vector<int64_t> shape;
  bool possible = it->size() <= kMaxNumDims;
  for (const auto& size : *it) {
    possible = possible && size.is_number_unsigned() && size.get<uint64_t>() <= (uint64_t{1} << 48);
    if (!possible) data_error("io", "{}: tensor '{}' has the impossible shape {}", file, name, shown(*it));
    shape.push_back(size.get<int64_t>());
  }
  return shape;
}

uint64_t expected_bytes(const TensorInfo& info, const std::string& name, std::string_view file) {
  // A dimension of 0 makes the tensor empty, yet the others must still fit: strides are products of them.
  unsigned __int128 bytes = c10::elementSize(info.dtype);
  bool empty = false;
  for (auto size : info.shape) {
    empty = empty || size == 0;
    bytes *= static_cast<uint64_t>(std::max<int64_t>(size, 1));
    if (bytes > (static_cast<unsigned __int128>(1) << 60)) data_error("io", "{}: tensor '{}' claims more than 2^60 bytes", file, name);
  }
  return empty ? 0 : static_cast<uint64_t>(bytes);
}

TensorInfo parse_entry(const nlohmann::json& entry, const std::string& name, uint64_t data_bytes, std::string_view file) {
  if (!entry.is_object()) data_error("io", "{}: the header's entry '{}' is not an object", file, name);
  TensorInfo info;
  info.dtype = dtype_of(entry, name, file);
  info.shape = shape_of(entry, name, file);
  auto offsets = entry.find("data_offsets");
  bool pair = offsets != entry.end() && offsets->is_array() && offsets->size() == 2 && (*offsets)[0].is_number_unsigned() &&
              (*offsets)[1].is_number_unsigned();
  if (!pair) data_error("io", "{}: tensor '{}' has no pair of data_offsets", file, name);
  info.begin = (*offsets)[0].get<uint64_t>();
  info.end = (*offsets)[1].get<uint64_t>();
  if (info.begin > info.end || info.end > data_bytes) {
    data_error("io", "{}: tensor '{}' lies at bytes {} to {} but the file holds {}; it is truncated or damaged", file, name, info.begin,
               info.end, data_bytes);
  }
  if (auto expected = expected_bytes(info, name, file); info.end - info.begin != expected) {
    data_error("io", "{}: tensor '{}' needs {} bytes for its shape and dtype but has {}", file, name, expected, info.end - info.begin);
  }
  return info;
}

void check_layout(const std::map<std::string, TensorInfo>& tensors, uint64_t data_bytes, std::string_view file) {
  std::vector<const std::pair<const std::string, TensorInfo>*> order;
  for (const auto& item : tensors) order.push_back(&item);
  std::sort(order.begin(), order.end(),
            [](auto* a, auto* b) { return std::pair(a->second.begin, a->second.end) < std::pair(b->second.begin, b->second.end); });
  uint64_t at = 0;
  for (const auto* item : order) {
    if (item->second.begin < at) data_error("io", "{}: tensor '{}' overlaps the one before it", file, item->first);
    if (item->second.begin > at)
      data_error("io", "{}: {} unused bytes before tensor '{}'; the file is damaged", file, item->second.begin - at, item->first);
    at = item->second.end;
  }
  if (at != data_bytes)
    data_error("io", "{}: the tensors end at byte {} but the file holds {}; it is truncated or damaged", file, at, data_bytes);
}

}  // namespace

SafetensorsHeader parse_header(std::string_view text, uint64_t data_bytes, std::string_view file) {
  SafetensorsHeader header;
  auto json = parse_strictly(text, file);
  for (const auto& [name, entry] : json.items()) {
    if (name != "__metadata__") {
      header.tensors.emplace(name, parse_entry(entry, name, data_bytes, file));
      continue;
    }
    if (!entry.is_object()) data_error("io", "{}: __metadata__ is not an object", file);
    for (const auto& [key, value] : entry.items()) {
      if (!value.is_string()) data_error("io", "{}: the metadata '{}' is not a string", file, key);
      header.metadata[key] = value.get<std::string>();
    }
  }
  check_layout(header.tensors, data_bytes, file);
  return header;
}

std::string numbers_name(const TensorInfo& info) {
  return info.codes ? std::string(code_block(info.codes->kind).name) : dtype_name(info.dtype);
}

std::string safetensors_dtype(c10::ScalarType dtype) {
  for (const auto& d : kDtypes) {
    if (d.type == dtype) return d.name;
  }
  data_error("io", "safetensors has no dtype for {}", c10::toString(dtype));
}

}  // namespace burnish::io
