#include <ATen/ops/empty.h>
#include <jxl/decode.h>

#include <cstdio>
#include <memory>
#include <mutex>

#include "base/input_error.h"
#include "data/codecs.h"

namespace burnish::data {

namespace {

/// libjxl, opened when the first such picture comes.
struct Jxl {
  Library library{companion("jxl").string()};
  decltype(&JxlDecoderCreate) create = library.find("JxlDecoderCreate");
  decltype(&JxlDecoderDestroy) destroy = library.find("JxlDecoderDestroy");
  decltype(&JxlDecoderSubscribeEvents) subscribe_events = library.find("JxlDecoderSubscribeEvents");
  decltype(&JxlDecoderSetInput) set_input = library.find("JxlDecoderSetInput");
  decltype(&JxlDecoderCloseInput) close_input = library.find("JxlDecoderCloseInput");
  decltype(&JxlDecoderProcessInput) process_input = library.find("JxlDecoderProcessInput");
  decltype(&JxlDecoderGetBasicInfo) get_basic_info = library.find("JxlDecoderGetBasicInfo");
  decltype(&JxlDecoderGetICCProfileSize) get_icc_profile_size = library.find("JxlDecoderGetICCProfileSize");
  decltype(&JxlDecoderGetColorAsICCProfile) get_color_as_icc_profile = library.find("JxlDecoderGetColorAsICCProfile");
  decltype(&JxlDecoderSetImageOutBuffer) set_image_out_buffer = library.find("JxlDecoderSetImageOutBuffer");
};

const Jxl& libjxl(const std::string& file) {
  static const Jxl loaded;
  check_reader(loaded.library, file, "libjxl", "libjxl0.7");
  return loaded;
}

/// While one is there, C's `stderr` leads nowhere: Debian's libjxl writes its own lines there about every damaged picture and has no switch
/// for it. What the program says is not touched: its logger and progress bars hold the stream itself.
class QuietLibrary {
 public:
  QuietLibrary() {
    std::lock_guard lock(mutex_);
    static std::FILE* const nowhere = std::fopen("/dev/null", "w");
    if (num_quiet_++ > 0 || nowhere == nullptr) return;
    real_ = stderr;
    stderr = nowhere;
  }
  ~QuietLibrary() {
    std::lock_guard lock(mutex_);
    if (--num_quiet_ > 0 || real_ == nullptr) return;
    stderr = real_;
    real_ = nullptr;
  }
  QuietLibrary(const QuietLibrary&) = delete;
  QuietLibrary& operator=(const QuietLibrary&) = delete;

 private:
  static inline std::mutex mutex_;
  static inline int num_quiet_ = 0;
  static inline std::FILE* real_ = nullptr;
};

}  // namespace

// JPEG XL: libjxl, which turns pictures upright itself.
Decoded decode_jxl(std::string_view bytes, const std::string& file, bool header_only) {
  auto refuse = [&] { data_error("data", "{} cannot be decoded: it is truncated or damaged", file); };
  const auto& lib = libjxl(file);
  QuietLibrary quiet;
  std::unique_ptr<JxlDecoder, decltype(lib.destroy)> decoder(lib.create(nullptr), lib.destroy);
  lib.subscribe_events(decoder.get(), JXL_DEC_BASIC_INFO | JXL_DEC_COLOR_ENCODING | JXL_DEC_FULL_IMAGE);
  lib.set_input(decoder.get(), reinterpret_cast<const uint8_t*>(bytes.data()), bytes.size());
  lib.close_input(decoder.get());
  JxlBasicInfo info{};
  if (lib.process_input(decoder.get()) != JXL_DEC_BASIC_INFO || lib.get_basic_info(decoder.get(), &info) != JXL_DEC_SUCCESS) refuse();
  Decoded out{.size = {info.ysize, info.xsize}};
  check_size(out.size.height, out.size.width, file);
  if (header_only) return out;

  auto pixels_HW4 = at::empty({out.size.height, out.size.width, 4}, at::TensorOptions().dtype(at::kByte));
  JxlPixelFormat format{4, JXL_TYPE_UINT8, JXL_NATIVE_ENDIAN, 0};
  if (lib.process_input(decoder.get()) != JXL_DEC_COLOR_ENCODING) refuse();
  std::string profile;
  size_t profile_bytes = 0;
  if (lib.get_icc_profile_size(decoder.get(), &format, JXL_COLOR_PROFILE_TARGET_DATA, &profile_bytes) == JXL_DEC_SUCCESS) {
    profile.resize(profile_bytes);
    auto* to = reinterpret_cast<uint8_t*>(profile.data());
    if (lib.get_color_as_icc_profile(decoder.get(), &format, JXL_COLOR_PROFILE_TARGET_DATA, to, profile_bytes) != JXL_DEC_SUCCESS) refuse();
  }
  if (lib.process_input(decoder.get()) != JXL_DEC_NEED_IMAGE_OUT_BUFFER) refuse();
  if (lib.set_image_out_buffer(decoder.get(), &format, pixels_HW4.mutable_data_ptr<uint8_t>(), pixels_HW4.nbytes()) != JXL_DEC_SUCCESS)
    refuse();
  if (lib.process_input(decoder.get()) != JXL_DEC_FULL_IMAGE) refuse();
  out = undecoded(out.size, info.alpha_bits > 0);
  out.icc_profile = std::move(profile);
  for (int64_t y = 0; y < out.size.height; ++y) put_row(out, y, pixels_HW4.const_data_ptr<uint8_t>() + y * out.size.width * 4);
  return out;
}

}  // namespace burnish::data
