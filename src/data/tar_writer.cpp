#include "data/tar_writer.h"

#include <fmt/core.h>

#include <stdexcept>

namespace burnish::data {

namespace {

constexpr size_t kBlockBytes = 512, kNameBytes = 100, kSizeBytes = 12;

void put_field(std::string& block, size_t at, std::string_view text) { block.replace(at, text.size(), text); }

/// Eleven octal digits; from 8 GiB on the bytes themselves behind a set bit, as GNU writes them.
std::string size_field(uint64_t size) {
  if (size < uint64_t{1} << 33) return fmt::format("{:011o}", size) + '\0';
  std::string field(kSizeBytes, '\0');
  field[0] = static_cast<char>(0x80);
  for (size_t i = kSizeBytes; size > 0; size >>= 8) field[--i] = static_cast<char>(size & 0xFF);
  return field;
}

std::string tar_header(const std::string& name, uint64_t size) {
  if (name.size() > kNameBytes) throw std::logic_error("a name too long for a tar archive: " + name);
  std::string block(kBlockBytes, '\0');
  put_field(block, 0, name);
  put_field(block, 100, "0000644");
  put_field(block, 108, "0000000");
  put_field(block, 116, "0000000");
  put_field(block, 124, size_field(size));
  put_field(block, 136, "00000000000");
  put_field(block, 148, "        ");  // the sum is of the header with blanks in its place
  put_field(block, 156, "0");
  put_field(block, 257, "ustar");
  put_field(block, 263, "00");
  unsigned sum = 0;
  for (unsigned char c : block) sum += c;
  put_field(block, 148, fmt::format("{:06o}", sum) + '\0');
  return block;
}

}  // namespace

void TarWriter::add(const std::string& name, std::string_view bytes) {
  auto block = tar_header(name, bytes.size());
  file_.write(block.data(), block.size());
  file_.write(bytes.data(), bytes.size());
  const std::string rest((kBlockBytes - bytes.size() % kBlockBytes) % kBlockBytes, '\0');
  file_.write(rest.data(), rest.size());
}

void TarWriter::commit() {
  const std::string end(2 * kBlockBytes, '\0');
  file_.write(end.data(), end.size());
  file_.commit();
}

}  // namespace burnish::data
