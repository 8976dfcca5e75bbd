#pragma once
#include <algorithm>
#include <cstdlib>
#include <exception>
#include <set>
#include <string>
#include <string_view>

#include "base/error.h"
#include "data/metadata.h"
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

}  // namespace burnish::fuzz
