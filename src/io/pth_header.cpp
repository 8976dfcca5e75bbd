#include "io/pth_header.h"

#include <array>
#include <cstring>
#include <optional>
#include <set>

#include "base/input_error.h"

namespace burnish::io {

namespace {

using Kind = PickleValue::Kind;

/// Little-endian number of N bytes at `at`; the caller has checked that they are there.
template <class T>
T number_at(std::string_view bytes, size_t at) {
  T value;
  std::memcpy(&value, bytes.data() + at, sizeof(T));
  return value;
}

// Signatures and record lengths of the zip format (PKWARE's APPNOTE 6.3.10, sections 4.3.7 to 4.3.16).
constexpr uint32_t kLocalHeader = 0x04034b50, kCentralHeader = 0x02014b50, kEnd = 0x06054b50, kEnd64 = 0x06064b50,
                   kEnd64Locator = 0x07064b50;
constexpr size_t kLocalBytes = 30, kCentralBytes = 46, kEndBytes = 22, kEnd64Bytes = 56, kLocatorBytes = 20;

const std::map<std::string, c10::ScalarType, std::less<>>& dtypes() {
  using enum c10::ScalarType;
  static const std::map<std::string, c10::ScalarType, std::less<>> table{{"torch FloatStorage", Float},
                                                                         {"torch HalfStorage", Half},
                                                                         {"torch BFloat16Storage", BFloat16},
                                                                         {"torch DoubleStorage", Double},
                                                                         {"torch LongStorage", Long},
                                                                         {"torch IntStorage", Int},
                                                                         {"torch ShortStorage", Short},
                                                                         {"torch CharStorage", Char},
                                                                         {"torch ByteStorage", Byte},
                                                                         {"torch BoolStorage", Bool},
                                                                         {"torch float32", Float},
                                                                         {"torch float16", Half},
                                                                         {"torch bfloat16", BFloat16},
                                                                         {"torch float64", Double},
                                                                         {"torch int64", Long},
                                                                         {"torch int32", Int},
                                                                         {"torch int16", Short},
                                                                         {"torch int8", Char},
                                                                         {"torch uint8", Byte},
                                                                         {"torch bool", Bool},
                                                                         {"torch float8_e4m3fn", Float8_e4m3fn},
                                                                         {"torch float8_e5m2", Float8_e5m2}};
  return table;
}

/// Tensors and plain data; and classes whose values are passed over: they are named in files that people have, and hold nothing that is
/// read here.
bool is_allowed(const std::string& global) {
  static const std::set<std::string, std::less<>> known{"collections OrderedDict",
                                                        "_codecs encode",
                                                        "torch Size",
                                                        "torch device",
                                                        "torch._utils _rebuild_tensor_v2",
                                                        "torch._utils _rebuild_tensor_v3",
                                                        "torch._utils _rebuild_parameter",
                                                        kParameterDict,
                                                        "torch.storage UntypedStorage",
                                                        "torch UntypedStorage",
                                                        "PIL.Image Image",
                                                        "diffsynth.models.flux3_dit Packed",
                                                        "numpy dtype",
                                                        "numpy ndarray",
                                                        "numpy.core.multiarray scalar",
                                                        "numpy.core.multiarray _reconstruct",
                                                        "numpy._core.multiarray scalar",
                                                        "numpy._core.multiarray _reconstruct",
                                                        "__builtin__ set",
                                                        "builtins set",
                                                        "pathlib PosixPath",
                                                        "pytorch_lightning.callbacks.model_checkpoint ModelCheckpoint"};
  return known.contains(global) || dtypes().contains(global);
}

uint32_t crc32_of(std::string_view bytes) {
  static const std::array<uint32_t, 256> table = [] {
    std::array<uint32_t, 256> t{};
    for (uint32_t i = 0; i < 256; ++i) {
      auto c = i;
      for (int k = 0; k < 8; ++k) c = c & 1 ? 0xEDB88320u ^ c >> 1 : c >> 1;
      t[i] = c;
    }
    return t;
  }();
  uint32_t crc = 0xFFFFFFFFu;
  for (char c : bytes) crc = table[(crc ^ static_cast<unsigned char>(c)) & 0xFF] ^ crc >> 8;
  return ~crc;
}

std::vector<int64_t> sizes_in(const PickleValue& value) {
  const auto* items = value.is_made_by("torch Size") && value.items.size() == 2 ? value.items[1] : &value;
  std::vector<int64_t> sizes;
  if (items->kind != Kind::tuple) return {-1};
  for (const auto* item : items->items) sizes.push_back(item->kind == Kind::integer ? item->integer : -1);
  return sizes;
}

/// A parameter is its tensor.
const PickleValue& unwrapped(const PickleValue& value) {
  bool parameter = value.is_made_by("torch._utils _rebuild_parameter") && value.items.size() >= 2;
  return parameter ? *value.items[1] : value;
}

/// Elements from the first to the last that sizes and strides reach, or nothing when that overflows.
std::optional<uint64_t> reach(const std::vector<int64_t>& shape, const std::vector<int64_t>& strides) {
  uint64_t last = 0;
  for (size_t i = 0; i < shape.size(); ++i) {
    if (shape[i] == 0) return 0;
    uint64_t step = 0;
    if (__builtin_mul_overflow(static_cast<uint64_t>(shape[i] - 1), static_cast<uint64_t>(strides[i]), &step) ||
        __builtin_add_overflow(last, step, &last))
      return std::nullopt;
  }
  return last + 1;
}

}  // namespace

PthHeader PthHeader::parse(std::string_view bytes, std::string_view file) {
  PthHeader header;
  header.file_ = file;
  header.read_directory(bytes);
  const ArchiveMember* pickle = nullptr;
  for (const auto& [name, entry] : header.entries_) {
    if (name != "data.pkl" && !name.ends_with("/data.pkl")) continue;
    if (pickle) data_error("io", "{} holds two data.pkl; it was not written by torch.save", file);
    pickle = &entry;
    header.prefix_ = name.substr(0, name.size() - 8);
  }
  if (!pickle) data_error("io", "{} is a zip archive without data.pkl; it was not written by torch.save", file);
  auto order = header.entries_.find(header.prefix_ + "byteorder");
  if (order != header.entries_.end() && bytes.substr(order->second.begin, order->second.end - order->second.begin) != "little")
    data_error("io", "{} was written on a big-endian machine; save it anew on another", file);
  header.pickle_ = Pickle::parse(bytes.substr(pickle->begin, pickle->end - pickle->begin), file, is_allowed);
  return header;
}

void PthHeader::read_directory(std::string_view bytes) {
  auto bad = [&](std::string_view what) { data_error("io", "{} is damaged or not written by torch.save: {}", file_, what); };
  if (bytes.size() >= 4 && number_at<uint32_t>(bytes, 0) != kLocalHeader)
    data_error("io",
               "{} is no zip archive: it was written by a torch older than 1.6, or is no torch file; load and save it with a newer torch",
               file_);
  if (bytes.size() < kEndBytes) bad("it is too short");
  auto end = bytes.size() - kEndBytes;
  auto lowest = end > 65535 ? end - 65535 : 0;
  while (number_at<uint32_t>(bytes, end) != kEnd) {
    if (end == lowest) bad("its directory is missing; is the file complete?");
    --end;
  }
  uint64_t count = number_at<uint16_t>(bytes, end + 10), offset = number_at<uint32_t>(bytes, end + 16);
  if (end >= kLocatorBytes && number_at<uint32_t>(bytes, end - kLocatorBytes) == kEnd64Locator) {
    auto at = number_at<uint64_t>(bytes, end - kLocatorBytes + 8);
    if (at > bytes.size() - kEndBytes || bytes.size() - at < kEnd64Bytes || number_at<uint32_t>(bytes, at) != kEnd64)
      bad("its directory is damaged");
    count = number_at<uint64_t>(bytes, at + 32);
    offset = number_at<uint64_t>(bytes, at + 48);
  }
  for (uint64_t i = 0; i < count; ++i) {
    if (offset > bytes.size() || bytes.size() - offset < kCentralBytes || number_at<uint32_t>(bytes, offset) != kCentralHeader)
      bad("its directory is damaged");
    auto name = number_at<uint16_t>(bytes, offset + 28), extra = number_at<uint16_t>(bytes, offset + 30),
         comment = number_at<uint16_t>(bytes, offset + 32);
    auto length = kCentralBytes + name + extra + comment;
    if (bytes.size() - offset < length) bad("its directory is damaged");
    add_entry(bytes, bytes.substr(offset, length), name, extra);
    offset += length;
  }
}

void PthHeader::add_entry(std::string_view bytes, std::string_view central, size_t name_length, size_t extra_length) {
  auto name = std::string(central.substr(kCentralBytes, name_length));
  auto bad = [&] { data_error("io", "{}: its entry number {} lies outside the file; is the file complete?", file_, entries_.size()); };
  uint64_t packed = number_at<uint32_t>(central, 20), size = number_at<uint32_t>(central, 24), local = number_at<uint32_t>(central, 42);
  auto extra = central.substr(kCentralBytes + name_length, extra_length);
  while (extra.size() >= 4) {  // zip64: those of the three numbers that do not fit 32 bits, in this order
    size_t length = number_at<uint16_t>(extra, 2);
    if (length > extra.size() - 4) bad();
    auto field = extra.substr(4, length);
    if (number_at<uint16_t>(extra, 0) == 1) {
      for (auto* number : {&size, &packed, &local}) {
        if (*number != 0xFFFFFFFFu || field.size() < 8) continue;
        *number = number_at<uint64_t>(field, 0);
        field.remove_prefix(8);
      }
    }
    extra.remove_prefix(4 + length);
  }
  if (number_at<uint16_t>(central, 10) != 0 || packed != size || (number_at<uint16_t>(central, 8) & 1) != 0)
    data_error("io", "{} holds compressed or encrypted entries, which torch.save does not write; load and save it with torch", file_);
  if (local > bytes.size() || bytes.size() - local < kLocalBytes || number_at<uint32_t>(bytes, local) != kLocalHeader) bad();
  auto begin = local + kLocalBytes + number_at<uint16_t>(bytes, local + 26) + number_at<uint16_t>(bytes, local + 28);
  if (begin > bytes.size() || size > bytes.size() - begin) bad();
  entries_[name] = {begin, begin + size, number_at<uint32_t>(central, 16)};
}

bool PthHeader::is_tensor(const PickleValue& value) {
  const auto& tensor = unwrapped(value);
  return (tensor.is_made_by("torch._utils _rebuild_tensor_v2") || tensor.is_made_by("torch._utils _rebuild_tensor_v3")) &&
         tensor.items.size() >= 5;
}

const PthHeader::ArchiveMember& PthHeader::storage(const PickleValue& tensor, c10::ScalarType& dtype) const {
  auto bad = [&](std::string_view what) { data_error("io", "{}: a tensor of it cannot be read: {}", file_, what); };
  const auto& persistent = *tensor.items[1];
  if (persistent.kind != Kind::persistent || persistent.items[0]->kind != Kind::tuple) bad("it has no storage");
  const auto& id = persistent.items[0]->items;
  if (id.size() < 5 || !id[0]->is_text("storage") || id[1]->kind != Kind::global || id[2]->kind != Kind::text)
    bad("its storage has no name");
  bool has_dtype = tensor.is_made_by("torch._utils _rebuild_tensor_v3") && tensor.items.size() >= 8;
  auto type = dtypes().find(has_dtype ? tensor.items[7]->text : id[1]->text);
  if (type == dtypes().end()) bad(fmt::format("its dtype '{}' is not known", has_dtype ? tensor.items[7]->text : id[1]->text));
  dtype = type->second;
  auto entry = entries_.find(prefix_ + "data/" + id[2]->text);
  if (entry == entries_.end()) bad(fmt::format("its storage {} is not in the file", id[2]->text.substr(0, 40)));
  return entry->second;
}

PthTensor PthHeader::tensor(const PickleValue& value) const {
  const auto& made = unwrapped(value);
  PthTensor tensor;
  const auto& where = storage(made, tensor.dtype);
  tensor.shape = sizes_in(*made.items[3]);
  tensor.strides = sizes_in(*made.items[4]);
  auto offset = made.items[2]->kind == Kind::integer ? made.items[2]->integer : -1;
  bool sane = offset >= 0 && tensor.shape.size() == tensor.strides.size();
  for (auto size : tensor.shape) sane = sane && size >= 0;
  for (auto stride : tensor.strides) sane = sane && stride >= 0;
  auto elements = sane ? reach(tensor.shape, tensor.strides) : std::nullopt;
  auto capacity = (where.end - where.begin) / c10::elementSize(tensor.dtype);
  if (!elements || *elements > capacity || static_cast<uint64_t>(offset) > capacity - *elements)
    data_error("io", "{}: a tensor of it reaches beyond its storage of {} bytes; is the file complete?", file_, where.end - where.begin);
  tensor.begin = where.begin + static_cast<uint64_t>(offset) * c10::elementSize(tensor.dtype);
  tensor.end = tensor.begin + *elements * c10::elementSize(tensor.dtype);
  return tensor;
}

void PthHeader::verify(const PickleValue& tensor, std::string_view bytes) const {
  c10::ScalarType dtype{};
  const auto& where = storage(unwrapped(tensor), dtype);
  if (crc32_of(bytes.substr(where.begin, where.end - where.begin)) != where.crc32)
    data_error("io", "{} is damaged: the checksum of a tensor differs; make the file again", file_);
}

}  // namespace burnish::io
