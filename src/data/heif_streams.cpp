#include "data/heif_streams.h"

#include <algorithm>
#include <map>

#include "base/input_error.h"
#include "data/codecs.h"

namespace burnish::data {

namespace {

/// What is read lies beyond the end.
struct Ended {};

/// Numbers with the highest byte first.
class Reader {
 public:
  explicit Reader(std::string_view bytes) : rest_(bytes) {}
  bool empty() const { return rest_.empty(); }
  std::string_view rest() const { return rest_; }
  std::string_view take(uint64_t num_bytes) {
    if (num_bytes > rest_.size()) throw Ended();
    auto taken = rest_.substr(0, num_bytes);
    rest_.remove_prefix(num_bytes);
    return taken;
  }
  uint64_t number(uint64_t num_bytes) {
    uint64_t value = 0;
    for (unsigned char byte : take(num_bytes)) value = value << 8 | byte;
    return value;
  }

 private:
  std::string_view rest_;
};

/// The same of bits.
class Bits {
 public:
  explicit Bits(std::string_view bytes) : bytes_(bytes) {}
  uint64_t take(int num_bits) {
    uint64_t value = 0;
    for (int i = 0; i < num_bits; ++i, ++at_) {
      if (at_ / 8 >= bytes_.size()) throw Ended();
      value = value << 1 | (static_cast<unsigned char>(bytes_[at_ / 8]) >> (7 - at_ % 8) & 1);
    }
    return value;
  }
  bool flag() { return take(1) != 0; }
  void skip(size_t num_bits) { at_ += num_bits; }
  /// ue(v) of H.265; of the same form is AV1's uvlc().
  uint64_t exponential() {
    int num_zeros = 0;
    while (!flag()) {
      if (++num_zeros > 32) throw Ended();
    }
    return (uint64_t{1} << num_zeros) - 1 + take(num_zeros);
  }

 private:
  std::string_view bytes_;
  size_t at_ = 0;
};

/// Whatever they say, without overflow.
int64_t area(uint64_t width, uint64_t height) {
  constexpr uint64_t kMostSide = uint64_t{1} << 31;
  return static_cast<int64_t>(std::min(width, kMostSide) * std::min(height, kMostSide));
}

/// The pixels of a sequence header of AV1.
int64_t sequence_pixels(std::string_view header) {
  Bits bits(header);
  bits.skip(3 + 1);  // profile, still picture
  if (bits.flag()) {
    bits.skip(5);  // a header of few fields, which has a level
  } else {
    bool has_model = false;
    int delay_bits = 0;
    if (bits.flag()) {  // timing
      bits.skip(32 + 32);
      if (bits.flag()) bits.exponential();
      has_model = bits.flag();
      if (has_model) {
        delay_bits = static_cast<int>(bits.take(5)) + 1;
        bits.skip(32 + 5 + 5);
      }
    }
    bool has_delay = bits.flag();
    for (auto points = bits.take(5) + 1; points > 0; --points) {
      bits.skip(12);
      if (bits.take(5) > 7) bits.skip(1);  // level, tier
      if (has_model && bits.flag()) bits.skip(static_cast<size_t>(2 * delay_bits) + 1);
      if (has_delay && bits.flag()) bits.skip(4);
    }
  }
  auto width_bits = static_cast<int>(bits.take(4)) + 1, height_bits = static_cast<int>(bits.take(4)) + 1;
  auto width = bits.take(width_bits) + 1;
  return area(width, bits.take(height_bits) + 1);
}

/// The most pixels of the sequence headers in a stream of AV1.
int64_t av1_pixels(std::string_view stream) {
  constexpr uint64_t kSequenceHeader = 1;
  int64_t most = 0;
  for (Reader reader(stream); !reader.empty();) {
    auto head = reader.number(1);
    if (head & 4) reader.take(1);
    uint64_t size = reader.rest().size();
    if (head & 2) {
      size = 0;
      uint64_t byte = 128;
      for (int shift = 0; byte >= 128 && shift < 56; shift += 7) {
        byte = reader.number(1);
        size |= (byte & 127) << shift;
      }
    }
    auto content = reader.take(size);
    if ((head >> 3 & 15) == kSequenceHeader) most = std::max(most, sequence_pixels(content));
  }
  return most;
}

/// Those of a parameter set of HEVC, or 0 of another unit.
int64_t hevc_pixels(std::string_view unit) {
  constexpr uint64_t kSequenceParameterSet = 33;
  if (unit.size() < 2 || (static_cast<unsigned char>(unit[0]) >> 1 & 63) != kSequenceParameterSet) return 0;
  std::string plain;  // without the bytes that keep it from looking like the start of a unit
  for (size_t i = 2, zeros = 0; i < unit.size(); ++i) {
    bool is_guard = zeros >= 2 && unit[i] == 3;
    zeros = unit[i] == 0 ? zeros + 1 : 0;
    if (!is_guard) plain += unit[i];
  }
  Bits bits(plain);
  constexpr size_t kProfile = 88, kLevel = 8;
  bits.skip(4);
  auto layers = static_cast<int>(bits.take(3));
  bits.skip(1 + kProfile + kLevel);
  std::string present;
  for (int i = 0; i < (layers > 0 ? 8 : 0); ++i) present += static_cast<char>(bits.take(2));
  for (int i = 0; i < layers; ++i)
    bits.skip((present[static_cast<size_t>(i)] & 2 ? kProfile : 0) + (present[static_cast<size_t>(i)] & 1 ? kLevel : 0));
  bits.exponential();
  if (bits.exponential() == 3) bits.skip(1);  // 4:4:4 says whether its planes are apart
  auto width = bits.exponential();
  return area(width, bits.exponential());
}

/// What stands between pictures and their streams.
struct Box {
  std::string_view type, content;
};

Box take_box(Reader& reader) {
  auto size = reader.number(4);
  auto type = reader.take(4);
  if (size == 0) return {type, reader.take(reader.rest().size())};
  uint64_t head = size == 1 ? 16 : 8;
  if (size == 1) size = reader.number(8);
  if (size < head) throw Ended();
  return {type, reader.take(size - head)};
}

/// A box with a version and flags before its content, which `reader` is left at.
uint64_t version_of(Reader& reader) {
  auto version = reader.number(1);
  reader.take(3);
  return version;
}

/// Sizes in a file's boxes.
struct PixelCounts {
  int64_t of_pictures = 0, of_streams = 0;

  void add_property(const Box& box) {
    Reader reader(box.content);
    if (box.type == "ispe") {
      version_of(reader);
      auto width = reader.number(4);
      of_pictures = std::max(of_pictures, area(width, reader.number(4)));
    } else if (box.type == "av1C") {
      reader.take(4);
      of_streams = std::max(of_streams, av1_pixels(reader.rest()));
    } else if (box.type == "hvcC") {
      reader.take(22);
      for (auto arrays = reader.number(1); arrays > 0; --arrays) {
        reader.take(1);
        for (auto units = reader.number(2); units > 0; --units) add_unit(reader.take(reader.number(2)));
      }
    }
  }
  void add_unit(std::string_view unit) { of_streams = std::max(of_streams, hevc_pixels(unit)); }
  void add_item(std::string_view type, std::string_view data) {
    if (type == "av01") of_streams = std::max(of_streams, av1_pixels(data));
    for (Reader reader(type == "hvc1" ? data : ""); !reader.empty();) add_unit(reader.take(reader.number(4)));
  }
};

/// The types of items by their numbers.
std::map<uint64_t, std::string_view> item_types(std::string_view content) {
  std::map<uint64_t, std::string_view> types;
  Reader reader(content);
  for (auto count = reader.number(version_of(reader) == 0 ? 2 : 4); count > 0; --count) {
    Reader entry(take_box(reader).content);
    auto version = version_of(entry);
    if (version < 2) continue;  // which has no type
    auto id = entry.number(version == 2 ? 2 : 4);
    entry.take(2);
    types[id] = entry.take(4);
  }
  return types;
}

/// Where the items lie.
void add_items(std::string_view locations, const std::map<uint64_t, std::string_view>& types, std::string_view file,
               std::string_view inside, PixelCounts& pixels) {
  Reader reader(locations);
  auto version = version_of(reader), sizes = reader.number(2);
  for (auto count = reader.number(version < 2 ? 2 : 4); count > 0; --count) {
    auto id = reader.number(version < 2 ? 2 : 4), method = version == 0 ? 0 : reader.number(2) & 15;
    reader.take(2);
    auto base = reader.number(sizes >> 4 & 15);
    auto from = method == 1 ? inside : file;
    std::string data;
    for (auto extents = reader.number(2); extents > 0; --extents) {
      if (version > 0) reader.take(sizes & 15);
      Reader behind(from);
      behind.take(base + reader.number(sizes >> 12));
      auto length = reader.number(sizes >> 8 & 15);
      data += behind.take(length == 0 ? behind.rest().size() : length);
      if (data.size() > file.size()) throw Ended();
    }
    auto type = types.find(id);
    if (type != types.end()) pixels.add_item(type->second, data);
  }
}

PixelCounts pixels_in(std::string_view file) {
  Box meta;
  for (Reader reader(file); meta.type != "meta";) meta = take_box(reader);
  Reader reader(meta.content);
  version_of(reader);
  PixelCounts pixels;
  std::string_view locations, inside;
  std::map<uint64_t, std::string_view> types;
  while (!reader.empty()) {
    auto box = take_box(reader);
    if (box.type == "iloc") locations = box.content;
    if (box.type == "idat") inside = box.content;
    if (box.type == "iinf") types = item_types(box.content);
    for (Reader parts(box.type == "iprp" ? box.content : ""); !parts.empty();) {
      auto part = take_box(parts);
      for (Reader properties(part.type == "ipco" ? part.content : ""); !properties.empty();) pixels.add_property(take_box(properties));
    }
  }
  add_items(locations, types, file, inside, pixels);
  return pixels;
}

}  // namespace

void check_streams(std::string_view bytes, const std::string& file) {
  // Coded pictures are padded to whole blocks, and parts of them left out.
  constexpr int64_t kTimes = 2, kPadding = 1 << 20;
  PixelCounts pixels;
  try {
    pixels = pixels_in(bytes);
  } catch (const Ended&) {
    data_error("data", "{} cannot be decoded: it is truncated or damaged", file);
  }
  if (pixels.of_streams <= kTimes * std::min(pixels.of_pictures, kMostPixels) + kPadding) return;
  data_error("data", "{} cannot be decoded: its stream has {} pixels, and its header says {}", file, pixels.of_streams, pixels.of_pictures);
}

}  // namespace burnish::data
