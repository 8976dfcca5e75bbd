#pragma once
#include <ATen/core/Tensor.h>

#include <filesystem>
#include <functional>
#include <memory>
#include <vector>

#include "data/clip_frames.h"
#include "data/size.h"

namespace burnish::data {

/// A clip as it is shown.
struct ClipLook {
  Size size;                  ///< height and width of its frames, upright and in square pixels
  int64_t num_frames = 0;     ///< frames that are shown, whatever its container says of their number
  Fraction duration;          ///< seconds from the first frame to the end of the last one; 0 where frames have numbers and no times
  Fraction usual_frame = {};  ///< seconds for which the median frame is shown; 0 where frames have numbers and no times
};

/// Tells by its ending whether a file may be a clip: what is one alone, and a GIF or WebP picture, which may be an animation.
bool may_be_clip(const std::filesystem::path& path);
/// Tells by its ending whether a file is a video, which FFmpeg's libraries read.
bool is_video(const std::filesystem::path& path);

/// Tells of a file or folder whether it is a clip and never a picture: a video, and a folder, which holds frames.
bool is_clip_alone(const std::filesystem::path& path);

/// Opens a clip: a folder of frames (frame_folder.h); a video, by FFmpeg's libraries; without them a GIF or WebP animation, and a picture,
/// which is a clip of one frame. A data Error names the file and the reason when it cannot be read.
std::unique_ptr<ClipFrames> open_clip(const std::filesystem::path& path);

/// Decodes all of a clip. A data Error says of a truncated or damaged one how much of it could be decoded.
ClipLook look_at_clip(const std::filesystem::path& path);

/// Decodes the frames that are shown at these times, which rise and count from the first frame, as uint8 [F, H, W, 3]: upright, in square
/// pixels and in full range. At a time the frame is shown that was there last, to half a tick of the clip's clock. A data Error where the
/// clip ends before.
at::Tensor decode_frames(const std::filesystem::path& path, const std::vector<Fraction>& times);

/// Decodes how opaque each pixel of these frames is, uint8 [F, H, W, 1]; 255 where the clip holds no transparency.
at::Tensor decode_frame_alphas(const std::filesystem::path& path, const std::vector<Fraction>& times);

/// Hands these frames one by one to `take` with their number among the times: the frame itself, uint8 [H, W, 3], or how opaque it is,
/// [H, W, 1]. The next one takes its place in memory.
void for_frames_at(const std::filesystem::path& path, const std::vector<Fraction>& times, bool of_alpha,
                   const std::function<void(int64_t k, const at::Tensor& frame_HWC)>& take);

/// Hands all frames of a clip to `take`, as for_frames_at does.
void for_each_frame(const std::filesystem::path& path, bool of_alpha, const std::function<void(const at::Tensor& frame_HWC)>& take);

}  // namespace burnish::data
