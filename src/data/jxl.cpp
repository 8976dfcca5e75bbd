#include <ATen/ops/empty.h>
#include <jxl/decode.h>
#include <jxl/decode_cxx.h>

#include <cstdio>
#include <mutex>

#include "base/error.h"
#include "data/codecs.h"

namespace burnish::data {

namespace {

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
  QuietLibrary quiet;
  auto decoder = JxlDecoderMake(nullptr);
  JxlDecoderSubscribeEvents(decoder.get(), JXL_DEC_BASIC_INFO | JXL_DEC_COLOR_ENCODING | JXL_DEC_FULL_IMAGE);
  JxlDecoderSetInput(decoder.get(), reinterpret_cast<const uint8_t*>(bytes.data()), bytes.size());
  JxlDecoderCloseInput(decoder.get());
  JxlBasicInfo info{};
  if (JxlDecoderProcessInput(decoder.get()) != JXL_DEC_BASIC_INFO || JxlDecoderGetBasicInfo(decoder.get(), &info) != JXL_DEC_SUCCESS)
    refuse();
  Decoded out{.size = {info.ysize, info.xsize}};
  check_size(out.size.height, out.size.width, file);
  if (header_only) return out;

  auto pixels_HW4 = at::empty({out.size.height, out.size.width, 4}, at::TensorOptions().dtype(at::kByte));
  JxlPixelFormat format{4, JXL_TYPE_UINT8, JXL_NATIVE_ENDIAN, 0};
  if (JxlDecoderProcessInput(decoder.get()) != JXL_DEC_COLOR_ENCODING) refuse();
  std::string profile;
  size_t profile_bytes = 0;
  if (JxlDecoderGetICCProfileSize(decoder.get(), &format, JXL_COLOR_PROFILE_TARGET_DATA, &profile_bytes) == JXL_DEC_SUCCESS) {
    profile.resize(profile_bytes);
    auto* to = reinterpret_cast<uint8_t*>(profile.data());
    if (JxlDecoderGetColorAsICCProfile(decoder.get(), &format, JXL_COLOR_PROFILE_TARGET_DATA, to, profile_bytes) != JXL_DEC_SUCCESS)
      refuse();
  }
  if (JxlDecoderProcessInput(decoder.get()) != JXL_DEC_NEED_IMAGE_OUT_BUFFER) refuse();
  if (JxlDecoderSetImageOutBuffer(decoder.get(), &format, pixels_HW4.mutable_data_ptr<uint8_t>(), pixels_HW4.nbytes()) != JXL_DEC_SUCCESS)
    refuse();
  if (JxlDecoderProcessInput(decoder.get()) != JXL_DEC_FULL_IMAGE) refuse();
  out = undecoded(out.size, info.alpha_bits > 0);
  out.icc_profile = std::move(profile);
  for (int64_t y = 0; y < out.size.height; ++y) put_row(out, y, pixels_HW4.const_data_ptr<uint8_t>() + y * out.size.width * 4);
  return out;
}

}  // namespace burnish::data
