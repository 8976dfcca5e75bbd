#include "data/tar.h"

#include <unistd.h>

#include <algorithm>
#include <charconv>
#include <map>
#include <optional>
#include <string_view>

#include "base/input_error.h"
#include "base/number.h"
#include "io/files.h"

namespace burnish::data {

namespace fs = std::filesystem;

namespace {

constexpr uint64_t kTarBlock = 512;
constexpr uint64_t kMostNameBytes = 1 << 20;  ///< of a name or a pax header, which are read into memory

std::string read_range(const io::InputFile& file, const fs::path& path, uint64_t offset, uint64_t size) {
  if (offset > file.size() || size > file.size() - offset)
    data_error("data", "the archive {} is truncated: files in it go on beyond its end; copy it again", path.string());
  std::string bytes(size, '\0');
  for (size_t done = 0; done < bytes.size();) {
    auto count = pread(file.descriptor(), bytes.data() + done, bytes.size() - done, static_cast<off_t>(offset + done));
    if (count <= 0) data_error("data", "cannot read {}", path.string());
    done += static_cast<size_t>(count);
  }
  return bytes;
}

/// A field of a header up to its first zero.
std::string_view tar_text(std::string_view block, size_t at, size_t length) {
  auto field = block.substr(at, length);
  return field.substr(0, std::min(field.find('\0'), field.size()));
}

/// Octal digits, or, as GNU writes large numbers, the bytes themselves behind a set bit; none where it is neither.
std::optional<uint64_t> tar_number(std::string_view block, size_t at, size_t length) {
  auto field = block.substr(at, length);
  uint64_t value = 0;
  if (static_cast<unsigned char>(field[0]) == 0x80) {
    for (char c : field.substr(length - 8)) value = value << 8 | static_cast<unsigned char>(c);
    return value;
  }
  auto digits = tar_text(block, at, length);
  while (digits.starts_with(' ')) digits.remove_prefix(1);
  while (digits.ends_with(' ')) digits.remove_suffix(1);
  auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), value, 8);
  if (digits.empty() || error != std::errc() || end != digits.data() + digits.size()) return std::nullopt;
  return value;
}

/// The sum of the header's bytes, those of the sum itself taken as blanks.
bool is_tar_header(std::string_view block) {
  uint64_t sum = 0;
  for (size_t i = 0; i < kTarBlock; ++i) sum += i >= 148 && i < 156 ? ' ' : static_cast<unsigned char>(block[i]);
  return tar_number(block, 148, 8) == sum;
}

/// The records "LENGTH KEY=VALUE\n" of a pax header.
std::map<std::string, std::string> pax_records(std::string_view text) {
  std::map<std::string, std::string> records;
  while (!text.empty()) {
    auto rest = text;
    const auto length = take_number<size_t>(rest).value_or(0);
    const auto start = text.size() - rest.size() + 1;
    if (length > text.size() || length <= start) break;
    auto record = text.substr(start, length - start - 1);
    auto equals = std::min(record.find('='), record.size());
    records[std::string(record.substr(0, equals))] = record.substr(std::min(equals + 1, record.size()));
    text.remove_prefix(length);
  }
  return records;
}

/// What stands before a member's header and replaces parts of it.
struct LongFields {
  std::string name;
  std::optional<uint64_t> size;

  void take(char type, const std::string& text) {
    if (type == 'L') name = text.substr(0, text.find('\0'));
    if (type != 'x') return;
    for (const auto& [key, value] : pax_records(text)) {
      if (key == "path") name = value;
      if (key != "size") continue;
      if (const auto number = parse_number<uint64_t>(value)) size = *number;
    }
  }
};

std::string name_in(std::string_view block) {
  auto name = std::string(tar_text(block, 0, 100)), prefix = std::string(tar_text(block, 345, 155));
  bool has_prefix = block.substr(257, 6) == std::string_view("ustar\0", 6) && !prefix.empty();
  return has_prefix ? prefix + "/" + name : name;
}

}  // namespace

std::vector<TarMember> read_tar(const fs::path& path) {
  io::InputFile file(path);
  std::vector<TarMember> members;
  LongFields fields;
  if (file.size() < kTarBlock) data_error("data", "{} is no tar archive: it is too short", path.string());
  for (uint64_t at = 0; at + kTarBlock <= file.size();) {
    auto block = read_range(file, path, at, kTarBlock);
    if (std::ranges::all_of(block, [](char c) { return c == '\0'; })) return members;
    auto size = tar_number(block, 124, 12);
    if (!is_tar_header(block) || !size)
      data_error("data", "{} is no tar archive, or is damaged or compressed; unpack it, or make it without compression", path.string());
    const char type = block[156];
    const auto start = at + kTarBlock;
    if (type == 'L' || type == 'x') {
      if (*size > kMostNameBytes) data_error("data", "the archive {} is damaged: a name in it is {} bytes long", path.string(), *size);
      fields.take(type, read_range(file, path, start, *size));
    } else {
      auto length = fields.size.value_or(*size);
      if (length > file.size() - start)
        data_error("data", "the archive {} is truncated: files in it go on beyond its end; copy it again", path.string());
      // Names lead to members alone: not to the root folder, nor out of the archive.
      auto name = fs::path(fields.name.empty() ? name_in(block) : fields.name).lexically_normal().relative_path().string();
      bool is_file = type == '0' || type == '\0' || type == '7';
      if (is_file && !name.empty() && !name.starts_with("..")) members.push_back({name, start, length});
      size = length;
      fields = {};
    }
    at = start + (*size + kTarBlock - 1) / kTarBlock * kTarBlock;
  }
  data_error("data", "the archive {} is truncated: it has no end mark; copy it again", path.string());
}

std::string read_member(const fs::path& archive, const TarMember& member) {
  return read_range(io::InputFile(archive), archive, member.offset, member.size);
}

}  // namespace burnish::data
