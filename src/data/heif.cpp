#include <libheif/heif.h>

#include <memory>

#include "base/error.h"
#include "data/codecs.h"

namespace burnish::data {

// HEIC and AVIF: libheif, which turns pictures upright itself.
Decoded decode_heif(std::string_view bytes, const std::string& file, bool header_only) {
  auto check = [&](const heif_error& error) {
    if (error.code != heif_error_Ok) data_error("data", "{} cannot be decoded: {}", file, error.message);
  };
  std::unique_ptr<heif_context, decltype(&heif_context_free)> context(heif_context_alloc(), heif_context_free);
  check(heif_context_read_from_memory_without_copy(context.get(), bytes.data(), bytes.size(), nullptr));
  heif_image_handle* first = nullptr;
  check(heif_context_get_primary_image_handle(context.get(), &first));
  std::unique_ptr<heif_image_handle, decltype(&heif_image_handle_release)> handle(first, heif_image_handle_release);
  Decoded out;
  out.size = {heif_image_handle_get_height(first), heif_image_handle_get_width(first)};
  check_size(out.size.height, out.size.width, file);
  if (header_only) return out;

  heif_image* decoded = nullptr;
  bool has_alpha = heif_image_handle_has_alpha_channel(first) != 0;
  check(heif_decode_image(first, &decoded, heif_colorspace_RGB, heif_chroma_interleaved_RGBA, nullptr));
  std::unique_ptr<heif_image, decltype(&heif_image_release)> image(decoded, heif_image_release);
  int stride = 0;
  const auto* plane = heif_image_get_plane_readonly(decoded, heif_channel_interleaved, &stride);
  auto height = heif_image_get_height(decoded, heif_channel_interleaved), width = heif_image_get_width(decoded, heif_channel_interleaved);
  if (plane == nullptr || height != out.size.height || width != out.size.width)
    data_error("data", "{} cannot be decoded: its picture is not of the size that its header says", file);
  out = undecoded(out.size, has_alpha);
  for (int64_t y = 0; y < height; ++y) put_row(out, y, plane + y * stride);
  auto kind = heif_image_handle_get_color_profile_type(first);
  if (kind != heif_color_profile_type_prof && kind != heif_color_profile_type_rICC) return out;
  out.icc_profile.resize(heif_image_handle_get_raw_color_profile_size(first));
  check(heif_image_handle_get_raw_color_profile(first, out.icc_profile.data()));
  return out;
}

}  // namespace burnish::data
