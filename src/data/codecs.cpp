#include "data/codecs.h"

#include <ATen/ops/empty.h>
#include <c10/util/Exception.h>

#include <new>
#include <stdexcept>
#include <vector>

#include "base/error.h"
#include "base/input_error.h"

namespace burnish::data {

void refuse_picture(const std::string& file, const std::string& reason) {
  // Libraries say of hostile headers too that there is no memory for them; where there is none at all, the file is not to blame.
  constexpr size_t kLittle = size_t{32} << 20;
  if (reason.find("emory") != reason.npos) std::vector<char>(kLittle).front() = 0;
  data_error("data", "{} cannot be decoded: {}", file, reason);
}

void refuse_for_exception(const std::string& file) {
  constexpr const char* kMemory = "it asks for more memory than there is";
  try {
    throw;
  } catch (const Error&) {
    throw;
  } catch (const std::bad_alloc&) {
    refuse_picture(file, kMemory);
  } catch (const std::length_error&) {
    refuse_picture(file, kMemory);
  } catch (const c10::Error& error) {
    if (std::string_view(error.what()).find("allocate memory") == std::string_view::npos) throw;
    refuse_picture(file, kMemory);
  } catch (const std::runtime_error& error) {
    refuse_picture(file, error.what());
  }
}

namespace {

Decoded decode_as_told(std::string_view bytes, const std::string& file, bool header_only) {
  auto starts = [&](std::string_view magic) { return bytes.starts_with(magic); };
  using namespace std::string_view_literals;  // whose lengths count zeros
  if (starts("\xFF\xD8\xFF")) return decode_jpeg(bytes, file, header_only);
  if (starts("\x89PNG\r\n\x1A\n")) return decode_png(bytes, file, header_only);
  if (bytes.size() >= 12 && starts("RIFF") && bytes.substr(8, 4) == "WEBP") return decode_webp(bytes, file, header_only);
  if (starts("II*\0"sv) || starts("MM\0*"sv)) return decode_tiff(bytes, file, header_only);
  if (bytes.size() >= 12 && bytes.substr(4, 4) == "ftyp") return decode_heif(bytes, file, header_only);
  if (starts("\xFF\x0A") || starts("\0\0\0\x0CJXL \r\n\x87\n"sv)) return decode_jxl(bytes, file, header_only);
  if (starts("GIF87a") || starts("GIF89a")) return decode_gif(bytes, file, header_only);
  if (starts("BM")) return decode_bmp(bytes, file, header_only);
  data_error("data", "{} is not a JPEG, PNG, WebP, TIFF, HEIC, AVIF, JPEG XL, GIF or BMP picture{}", file,
             bytes.empty() ? " (the file is empty)" : "");
}

}  // namespace

Decoded decode_bytes(std::string_view bytes, const std::string& file, bool header_only) {
  return reading(file, [&] { return decode_as_told(bytes, file, header_only); });
}

int exif_orientation(std::string_view exif) {
  if (exif.starts_with(std::string_view("Exif\0\0", 6))) exif.remove_prefix(6);
  if (exif.size() < 14) return 1;
  bool little = exif.starts_with("II");
  if (!little && !exif.starts_with("MM")) return 1;
  auto number = [&](size_t at, size_t bytes) -> uint64_t {
    if (at + bytes > exif.size()) return 0;
    uint64_t value = 0;
    for (size_t i = 0; i < bytes; ++i) value = value << 8 | static_cast<unsigned char>(exif[at + (little ? bytes - 1 - i : i)]);
    return value;
  };
  auto directory = number(4, 4);
  auto entries = number(directory, 2);
  for (uint64_t i = 0; i < entries; ++i) {
    auto entry = directory + 2 + 12 * i;
    if (entry + 12 > exif.size()) return 1;
    if (number(entry, 2) != 0x0112) continue;
    auto value = number(entry + 8, 2);
    return value >= 1 && value <= 8 ? static_cast<int>(value) : 1;
  }
  return 1;
}

void check_reader(const Library& library, const std::string& file, const char* name, const char* package) {
  if (library.is_open()) return;
  data_error("data", "{} is read by {}, which cannot be opened ({}); install the package {}, or convert the picture", file, name,
             library.problem(), package);
}

void check_size(int64_t height, int64_t width, const std::string& file) {
  if (height < 1 || width < 1) data_error("data", "{} is {} by {} pixels: nothing to read", file, width, height);
  if (height > kMostPixels / width)
    data_error("data", "{} claims {} by {} pixels, and pictures of at most {} million are read; scale it down, or leave it out", file,
               width, height, kMostPixels / 1000000);
}

Decoded undecoded(Size size, bool has_alpha) {
  auto bytes = [&](int64_t channels) { return at::empty({size.height, size.width, channels}, at::TensorOptions().dtype(at::kByte)); };
  return {.size = size, .pixels_HW3 = bytes(3), .alpha_HW1 = has_alpha ? bytes(1) : at::Tensor()};
}

void put_row(Decoded& picture, int64_t y, const uint8_t* row_W4) {
  const auto width = picture.size.width;
  auto* color = picture.pixels_HW3.mutable_data_ptr<uint8_t>() + y * width * 3;
  auto* opacity = picture.alpha_HW1.defined() ? picture.alpha_HW1.mutable_data_ptr<uint8_t>() + y * width : nullptr;
  for (int64_t x = 0; x < width; ++x) {
    for (int c = 0; c < 3; ++c) color[x * 3 + c] = row_W4[x * 4 + c];
    if (opacity) opacity[x] = row_W4[x * 4 + 3];
  }
}

}  // namespace burnish::data
