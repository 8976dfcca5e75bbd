#include <libheif/heif.h>

#include <memory>

#include "base/input_error.h"
#include "base/library.h"
#include "data/codecs.h"
#include "data/heif_streams.h"

namespace burnish::data {

namespace {

/// libheif, opened when the first such picture comes. It brings along what writes pictures too, which is larger than all of this program
/// and under licences that would become its own: packages name the library instead of holding it.
struct Heif {
  Library library{"libheif.so.1"};
  decltype(&heif_context_alloc) context_alloc = library.find("heif_context_alloc");
  decltype(&heif_context_free) context_free = library.find("heif_context_free");
  decltype(&heif_context_read_from_memory_without_copy) context_read_from_memory_without_copy =
      library.find("heif_context_read_from_memory_without_copy");
  decltype(&heif_context_get_primary_image_handle) context_get_primary_image_handle = library.find("heif_context_get_primary_image_handle");
  decltype(&heif_image_handle_release) image_handle_release = library.find("heif_image_handle_release");
  decltype(&heif_image_handle_get_height) image_handle_get_height = library.find("heif_image_handle_get_height");
  decltype(&heif_image_handle_get_width) image_handle_get_width = library.find("heif_image_handle_get_width");
  decltype(&heif_image_handle_has_alpha_channel) image_handle_has_alpha_channel = library.find("heif_image_handle_has_alpha_channel");
  decltype(&heif_decode_image) decode_image = library.find("heif_decode_image");
  decltype(&heif_image_release) image_release = library.find("heif_image_release");
  decltype(&heif_image_get_plane_readonly) image_get_plane_readonly = library.find("heif_image_get_plane_readonly");
  decltype(&heif_image_get_height) image_get_height = library.find("heif_image_get_height");
  decltype(&heif_image_get_width) image_get_width = library.find("heif_image_get_width");
  decltype(&heif_image_handle_get_color_profile_type) image_handle_get_color_profile_type =
      library.find("heif_image_handle_get_color_profile_type");
  decltype(&heif_image_handle_get_raw_color_profile_size) image_handle_get_raw_color_profile_size =
      library.find("heif_image_handle_get_raw_color_profile_size");
  decltype(&heif_image_handle_get_raw_color_profile) image_handle_get_raw_color_profile =
      library.find("heif_image_handle_get_raw_color_profile");
};

const Heif& heif(const std::string& file) {
  static const Heif loaded;
  check_reader(loaded.library, file, "libheif", "libheif1");
  return loaded;
}

}  // namespace

// HEIC and AVIF: libheif, which turns pictures upright itself.
Decoded decode_heif(std::string_view bytes, const std::string& file, bool header_only) {
  const auto& lib = heif(file);
  auto check = [&](const heif_error& error) {
    if (error.code != heif_error_Ok) refuse_picture(file, error.message);
  };
  std::unique_ptr<heif_context, decltype(lib.context_free)> context(lib.context_alloc(), lib.context_free);
  check(lib.context_read_from_memory_without_copy(context.get(), bytes.data(), bytes.size(), nullptr));
  heif_image_handle* first = nullptr;
  check(lib.context_get_primary_image_handle(context.get(), &first));
  std::unique_ptr<heif_image_handle, decltype(lib.image_handle_release)> handle(first, lib.image_handle_release);
  Decoded out;
  out.size = {lib.image_handle_get_height(first), lib.image_handle_get_width(first)};
  check_size(out.size.height, out.size.width, file);
  if (header_only) return out;

  check_streams(bytes, file);
  heif_image* decoded = nullptr;
  bool has_alpha = lib.image_handle_has_alpha_channel(first) != 0;
  check(lib.decode_image(first, &decoded, heif_colorspace_RGB, heif_chroma_interleaved_RGBA, nullptr));
  std::unique_ptr<heif_image, decltype(lib.image_release)> image(decoded, lib.image_release);
  int stride = 0;
  const auto* plane = lib.image_get_plane_readonly(decoded, heif_channel_interleaved, &stride);
  auto height = lib.image_get_height(decoded, heif_channel_interleaved), width = lib.image_get_width(decoded, heif_channel_interleaved);
  if (plane == nullptr || height != out.size.height || width != out.size.width)
    data_error("data", "{} cannot be decoded: its picture is not of the size that its header says", file);
  out = undecoded(out.size, has_alpha);
  for (int64_t y = 0; y < height; ++y) put_row(out, y, plane + y * stride);
  auto kind = lib.image_handle_get_color_profile_type(first);
  if (kind != heif_color_profile_type_prof && kind != heif_color_profile_type_rICC) return out;
  out.icc_profile.resize(lib.image_handle_get_raw_color_profile_size(first));
  check(lib.image_handle_get_raw_color_profile(first, out.icc_profile.data()));
  return out;
}

}  // namespace burnish::data
