#include "records/event_file.h"

#include <fmt/core.h>

#include <bit>
#include <cmath>
#include <stdexcept>

#include "io/files.h"
#include "io/hash.h"

namespace burnish::records {

namespace {

/// The least significant byte first.
template <class T>
std::string little_endian(T value) {
  std::string bytes;
  for (size_t i = 0; i < sizeof value; ++i) bytes += static_cast<char>(value >> (8 * i) & 0xFF);
  return bytes;
}

std::string varint(uint64_t value) {
  std::string bytes;
  for (; value >= 0x80; value >>= 7) bytes += static_cast<char>(value | 0x80);
  return bytes + static_cast<char>(value);
}

// Fields of a protobuf message: number and wire type, then the value.
std::string field(unsigned number, int64_t value) { return varint(number << 3 | 0) + varint(static_cast<uint64_t>(value)); }
std::string field(unsigned number, double value) { return varint(number << 3 | 1) + little_endian(std::bit_cast<uint64_t>(value)); }
std::string field(unsigned number, float value) { return varint(number << 3 | 5) + little_endian(std::bit_cast<uint32_t>(value)); }
std::string field(unsigned number, std::string_view value) { return varint(number << 3 | 2) + varint(value.size()).append(value); }

// Numbers of the fields that are written.
namespace event {
constexpr unsigned kWallTime = 1, kStep = 2, kFileVersion = 3, kSummary = 5, kSessionLog = 7;
}
namespace summary {
constexpr unsigned kValue = 1;
}
namespace value {
constexpr unsigned kTag = 1, kSimpleValue = 2, kImage = 4;
}
namespace image {
constexpr unsigned kHeight = 1, kWidth = 2, kColorspace = 3, kEncodedImageString = 4;
}
namespace session_log {
constexpr unsigned kStatus = 1;
constexpr int64_t kStart = 1;
}  // namespace session_log

/// A checksum that is stored beside what it covers, made unlike a checksum of its own bytes (TFRecord format).
std::string masked_crc(std::string_view bytes) {
  auto crc = io::crc32c(bytes);
  return little_endian((crc >> 15 | crc << 17) + 0xA282EAD8u);
}

std::string tf_record(std::string_view bytes) {
  auto length = little_endian<uint64_t>(bytes.size());
  return length + masked_crc(length) + std::string(bytes) + masked_crc(bytes);
}

std::filesystem::path new_file(const std::filesystem::path& folder, double now) {
  auto name = fmt::format("events.out.tfevents.{:010}.burnish", static_cast<int64_t>(now));
  auto path = folder / name;
  for (int i = 1; io::is_there(path); ++i) path = folder / fmt::format("{}.{}", name, i);
  return path;
}

/// The big-endian number of 4 bytes of a PNG's header.
int64_t big_endian(std::string_view bytes) {
  int64_t value = 0;
  for (char c : bytes.substr(0, 4)) value = value << 8 | static_cast<unsigned char>(c);
  return value;
}

}  // namespace

EventFile::EventFile(const std::filesystem::path& folder, int64_t last_step, double now) : file_(new_file(folder, now)) {
  write_event(now, 0, field(event::kFileVersion, std::string_view("brain.Event:2")));
  write_event(now, last_step + 1, field(event::kSessionLog, field(session_log::kStatus, session_log::kStart)));
}

void EventFile::write_event(double time, int64_t step, std::string_view rest) {
  // Protobuf leaves zeros out.
  auto head = (time == 0 ? "" : field(event::kWallTime, time)) + (step == 0 ? "" : field(event::kStep, step));
  file_.write(tf_record(head.append(rest)));
}

void EventFile::write(const Record& record) {
  std::string values;
  for (const auto& [name, number] : record.values) {
    if (std::isnan(number)) continue;
    values += field(summary::kValue, field(value::kTag, std::string_view(name)) + field(value::kSimpleValue, static_cast<float>(number)));
  }
  write_event(record.time, record.step, field(event::kSummary, values));
}

void EventFile::write_picture(int64_t step, double time, const std::string& tag, std::string_view png) {
  // The header chunk comes first: signature, length, "IHDR", width, height, depth, color type (PNG specification, 11.2.2).
  constexpr size_t kWidthAt = 16, kHeightAt = 20, kColorTypeAt = 25;
  if (!png.starts_with("\x89PNG\r\n\x1A\n") || png.size() <= kColorTypeAt) throw std::logic_error("the picture for an event is no PNG");
  constexpr int64_t kChannels[] = {1, 0, 3, 3, 2, 0, 4};  // of the color types gray, RGB, palette, gray and alpha, RGB and alpha
  auto picture = field(image::kHeight, big_endian(png.substr(kHeightAt))) + field(image::kWidth, big_endian(png.substr(kWidthAt))) +
                 field(image::kColorspace, kChannels[static_cast<unsigned char>(png[kColorTypeAt]) % 7]) +
                 field(image::kEncodedImageString, png);
  write_event(time, step,
              field(event::kSummary, field(summary::kValue, field(value::kTag, std::string_view(tag)) + field(value::kImage, picture))));
}

}  // namespace burnish::records
