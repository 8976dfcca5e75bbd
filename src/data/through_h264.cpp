#include "data/through_h264.h"

#include <ATen/TensorOperators.h>
#include <ATen/ops/empty_like.h>
#include <ATen/ops/stack.h>
#include <fmt/core.h>

#include <memory>
#include <stdexcept>
#include <vector>

#include "base/error.h"
#include "base/input_error.h"
#include "data/clip_library.h"

namespace burnish::data {

namespace {

at::Tensor one_through(const ClipLibrary& library, const at::Tensor& pixels_HW3, int64_t crf) {
  const std::unique_ptr<VideoWriter> video(library.begin_video({.container = "mp4",
                                                                .encoders = {"libx264"},
                                                                .height = pixels_HW3.size(0),
                                                                .width = pixels_HW3.size(1),
                                                                .rate = {1, 1},
                                                                .settings = fmt::format("crf={}:preset=veryfast", crf)}));
  video->add(pixels_HW3.const_data_ptr<uint8_t>());
  const auto bytes = video->finish();
  const std::unique_ptr<ClipFrames> frames(library.open("", bytes));
  if (!frames->next()) throw std::runtime_error("nothing came out of its decoder");
  auto shown = at::empty_like(pixels_HW3);
  frames->write_pixels(shown.mutable_data_ptr<uint8_t>());
  return shown;
}

}  // namespace

at::Tensor through_h264(const at::Tensor& pictures_BCHW, int64_t crf) try {
  if (pictures_BCHW.is_meta()) return pictures_BCHW;
  const auto& library = clip_library_for("a frame that is given through H.264");
  const auto bytes_BHWC =
      ((pictures_BCHW.to(at::kCPU, at::kFloat) + 1) * 127.5).round().clamp(0, 255).to(at::kByte).permute({0, 2, 3, 1}).contiguous();
  std::vector<at::Tensor> shown;
  for (int64_t b = 0; b < bytes_BHWC.size(0); ++b) shown.push_back(one_through(library, bytes_BHWC[b], crf));
  return (at::stack(shown).permute({0, 3, 1, 2}).to(at::kFloat) / 127.5 - 1).contiguous().to(pictures_BCHW.options());
} catch (const Error&) {
  throw;
} catch (const std::runtime_error& error) {
  data_error("data", "given frames cannot be compressed as H.264: {}; install FFmpeg with libx264, or set given_frame_crf 0", error.what());
}

}  // namespace burnish::data
