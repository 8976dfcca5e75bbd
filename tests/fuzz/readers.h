#pragma once
#include <ATen/ops/full.h>
#include <fmt/core.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <exception>
#include <set>
#include <string>
#include <string_view>

#include "base/error.h"
#include "data/codecs.h"
#include "data/color_profile.h"
#include "data/metadata.h"
#include "data/tar.h"
#include "io/gguf_header.h"
#include "io/pth_header.h"
#include "io/safetensors_header.h"

// What is fuzzed: readers of files that come from elsewhere. Each takes arbitrary bytes and ends the process when a promise of the
// reader is broken; the fuzzers search for such bytes, and a test replays what they have found.
namespace burnish::fuzz {

inline void require(bool promise, const char* text) {
  if (promise) return;
  fmt::print(stderr, "broken promise: {}\n", text);
  std::abort();
}

/// Runs a reader; whatever it refuses, it refuses with a data Error of one line.
template <class F>
void read(F reader) {
  try {
    reader();
  } catch (const Error& error) {
    std::string_view text = error.what();
    require(error.code() == Exit::data, "a bad file is a data Error");
    require(std::none_of(text.begin(), text.end(), [](char c) { return static_cast<unsigned char>(c) < 0x20; }), "one line");
  }
}

/// The first two bytes are the length of the data section, the rest is the header.
inline void read_safetensors_header(std::string_view bytes) {
  if (bytes.size() < 2) return;
  auto data_bytes = static_cast<uint64_t>(static_cast<unsigned char>(bytes[0]) << 8 | static_cast<unsigned char>(bytes[1]));
  read([&] {
    auto header = io::parse_header(bytes.substr(2), data_bytes, "file");
    uint64_t total = 0;
    for (const auto& [name, info] : header.tensors) {
      auto count = static_cast<uint64_t>(c10::elementSize(info.dtype));
      for (auto size : info.shape) {
        require(size >= 0, "sizes are counts");
        count *= static_cast<uint64_t>(size);
      }
      require(info.begin <= info.end && info.end <= data_bytes, "tensors lie within the data");
      require(count == info.end - info.begin, "bytes match the shape");
      total += count;
    }
    require(total == data_bytes, "tensors tile the data");
  });
}

/// The first byte chooses: 'p' a pickle alone, anything else a whole archive.
inline void read_pth(std::string_view bytes) {
  if (bytes.empty()) return;
  auto rest = bytes.substr(1);
  read([&] {
    if (bytes[0] == 'p') {
      auto pickle = io::Pickle::parse(rest, "file", [](const std::string& global) {
        require(global.find(' ') != global.npos, "a global has a module and a name");
        return true;
      });
      require(pickle.num_bytes() <= rest.size(), "a pickle lies within its bytes");
      return;
    }
    auto header = io::PthHeader::parse(rest, "file");
    std::vector<const io::PickleValue*> open{&header.root()};
    std::set<const io::PickleValue*> seen;
    while (!open.empty()) {
      const auto* value = open.back();
      open.pop_back();
      if (!seen.insert(value).second) continue;
      open.insert(open.end(), value->items.begin(), value->items.end());
      if (!io::PthHeader::is_tensor(*value)) continue;
      auto tensor = header.tensor(*value);
      require(tensor.begin <= tensor.end && tensor.end <= rest.size(), "tensors lie within the file");
      header.verify(*value, rest);
    }
  });
}

/// A whole GGUF file.
inline void read_gguf(std::string_view bytes) {
  read([&] {
    auto header = io::GgufHeader::parse(bytes, "file");
    uint64_t end = 0, total = 0;
    for (const auto& [name, info] : header.tensors) {
      auto count = static_cast<uint64_t>(c10::elementSize(info.dtype));
      for (auto size : info.shape) {
        require(size >= 1, "sizes are counts");
        count *= static_cast<uint64_t>(size);
      }
      require(count == info.end - info.begin, "bytes match the shape");
      require(info.begin <= info.end && info.end <= bytes.size(), "tensors lie within the file");
      end = std::max(end, info.end);
      total += count;
    }
    require(total <= end, "tensors lie apart");
  });
}

/// The rows as a csv file with every cell quoted.
inline std::string to_csv(const data::Metadata& m) {
  std::string text;
  auto add = [&](const std::string& cell, bool last) {
    text += '"';
    for (char c : cell) text += c == '"' ? "\"\"" : std::string(1, c);
    text += last ? "\"\n" : "\",";
  };
  for (const auto& column : m.columns) add(column, &column == &m.columns.back());
  for (const auto& row : m.rows) {
    for (const auto& column : m.columns) add(row.at(column).get<std::string>(), &column == &m.columns.back());
  }
  return text;
}

/// The first byte chooses the format: 'j' a JSON list, 'l' JSON lines, anything else csv.
inline void read_metadata(std::string_view bytes) {
  if (bytes.empty()) return;
  auto text = bytes.substr(1);
  read([&] {
    auto m = bytes[0] == 'j'   ? data::parse_json_list(text, "file")
             : bytes[0] == 'l' ? data::parse_json_lines(text, "file")
                               : data::parse_csv(text, "file");
    require(!m.rows.empty(), "there are rows");
    for (const auto& row : m.rows) require(row.is_object(), "rows are objects");
    if (bytes[0] == 'j' || bytes[0] == 'l') return;
    auto again = data::parse_csv(to_csv(m), "file");
    require(again.columns == m.columns && again.rows == m.rows, "csv that is written reads back");
  });
}

/// A picture of any format, decoded where its header claims few pixels.
inline void read_picture(std::string_view bytes) {
  constexpr int64_t kMostDecoded = 1 << 18;
  read([&] {
    auto header = data::decode_bytes(bytes, "file", /*header_only=*/true);
    auto height = header.size.height, width = header.size.width;
    require(height >= 1 && width >= 1 && height <= data::kMostPixels / width, "a picture has pixels, and not too many");
    require(header.orientation >= 1 && header.orientation <= 8, "an orientation is one of eight");
    if (height * width > kMostDecoded) return;
    auto picture = data::decode_bytes(bytes, "file", /*header_only=*/false);
    require(picture.size == header.size, "the header says the size");
    require(picture.pixels_HW3.sizes() == at::IntArrayRef({height, width, 3}), "there is a colour for each pixel");
    require(!picture.alpha_HW1.defined() || picture.alpha_HW1.sizes() == at::IntArrayRef({height, width, 1}), "and an opacity, or none");
    data::convert_to_srgb(picture.pixels_HW3, picture.icc_profile);
  });
}

/// A colour profile, for colours and for inks.
inline void read_color_profile(std::string_view bytes) {
  auto few = [](int64_t channels) { return at::full({3, 5, channels}, 100, at::kByte); };
  auto colors = few(3);
  data::convert_to_srgb(colors, std::string(bytes));
  auto mixed = data::inks_to_srgb(few(4), std::string(bytes));
  require(!mixed.defined() || mixed.sizes() == colors.sizes(), "inks become colours");
}

/// A tar archive, in memory but with a path.
inline void read_archive(std::string_view bytes) {
  auto file = memfd_create("archive", 0);
  require(write(file, bytes.data(), bytes.size()) == static_cast<ssize_t>(bytes.size()), "there is memory");
  read([&] {
    for (const auto& member : data::read_tar("/proc/self/fd/" + std::to_string(file))) {
      require(member.size <= bytes.size() && member.offset <= bytes.size() - member.size, "members lie within the archive");
      require(!member.name.empty() && !member.name.starts_with('/') && !member.name.starts_with(".."), "names lead into the archive");
    }
  });
  close(file);
}

}  // namespace burnish::fuzz
