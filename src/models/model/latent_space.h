#pragma once
#include <ATen/core/Tensor.h>

#include <string>
#include <vector>

#include "base/column.h"

namespace burnish::models {

/// The name that units give the latents of the first stream.
inline const std::string kLatents = "latents";

/// Returns the name that units give a value of the stream with these latents. The values of the first stream, "latents", are called
/// "noise", "latent_noise", "noisy", "target", "prediction" and kLossMap; in another stream such a name stands behind the stream's and an
/// underscore: "audio_latents_noise", "audio_latents_prediction". `of_first` "latents" gives the stream's own name.
std::string stream_value(const std::string& stream, const std::string& of_first);

/// Returns the key of a stream's draws, from the key of the first stream's, which is its own.
uint64_t stream_key(uint64_t key, const std::string& stream);

/// The latents that a denoiser works on: what they are called, and how many of them a clip has. Plain data of a Model.
struct LatentSpace {
  /// A value of latents, which has noise of its own, and at every visit the time of all others. A sample may lack a further stream: its
  /// latents of that stream have no elements then, by which units see that nothing is to be computed of it, and the sample's loss has
  /// nothing of it. Samples of a batch have equal streams.
  struct Stream {
    /// A beginning that is given: a value of the denoiser with its latents, and the frames of the clip that they are of.
    struct Held {
      std::string name = {};
      int64_t num_frames = 1;
    };
    std::string name;      ///< name that units give its latents: "latents"
    int64_t channels = 0;  ///< numbers of a latent
    int64_t spatial = 8;   ///< pixels to a latent along height and width; 0: it has none of these, but is one line behind another
    int64_t temporal = 1;  ///< frames to a latent, of the first in a clip or in a step of it those that are left; of lines latents a second
    int64_t patch = 2;     ///< latents to a token along height and width
    double weight = 1;     ///< factor on its mean error in a sample's loss, a sum over streams; 0: it is seen, and not judged
    bool is_of_samples =
        true;                ///< whether samples may have it; else it stands beside theirs as noise, and counts where drawings are judged
    int64_t num_before = 0;  ///< latents in front of those of the clip, made of something else that the sample has; of lines their number
    Held held = {};          ///< what a clip begins with, and not with noise; no name: nothing
    std::string column =
        {};  ///< the metadata column (base/column.h) that it is made of: a row that leaves it empty lacks the stream; "": all rows have it

    /// Returns stream_value of this stream.
    std::string value(const std::string& of_first) const { return stream_value(name, of_first); }
  };
  std::vector<Stream> streams;  ///< the first is of frames, and called kLatents
  int64_t side = 16;            ///< pixels that height and width are multiples of
  /// A clip has one frame, or first_frames + k · frames_step, k being 0 or more. A step of 0 stands for pictures: one frame, and latents
  /// without a dimension of time.
  int64_t frames_step = 0, first_frames = 1;
  double frame_rate = 16;                            ///< frames a second of the clips that the model was made with
  Column::RateUse rate_use = Column::RateUse::none;  ///< what the model makes of the rate of other clips
  /// Tells whether frames are the layers of a picture, the whole first: pixels have a fourth number, how opaque they are, shifts of the
  /// noise depend on the tokens of one layer, and what is drawn is written as pictures.
  bool has_layers = false;

  /// Returns the sizes of a stream's latents without the batch, h and w being height and width over `spatial`: [C, h, w] of pictures; of
  /// clips [C, F, h, w], F being num_before and what `temporal` says of the frames; of lines [C, num_before · N], N being counted at
  /// `rate` frames a second, or where that is 0 the model's. Throws a config Error for an extent that `check` refuses.
  std::vector<int64_t> shape(const Stream& stream, const Extent& extent, double rate = 0) const;
  /// Returns the sizes of the first stream's latents.
  std::vector<int64_t> shape(const Extent& extent) const { return shape(streams.at(0), extent); }

  /// Counts the tokens that the denoiser makes of the first stream: F · (h / patch) · (w / patch), of layers those of one. Shifts of the
  /// noise depend on this number; tokens of texts, reference pictures and further streams are not in it.
  int64_t num_tokens(const Extent& extent) const { return num_tokens(shape(extent)); }
  /// Counts these tokens for latents of this shape, without the batch.
  int64_t num_tokens(at::IntArrayRef shape) const;

  /// Returns the numbers of a pixel.
  int64_t pixel_channels() const { return has_layers ? 4 : 3; }

  /// Returns the rate of a clip of which `rate` frames a second are asked for; 0 asks for the model's. Throws a config Error where the
  /// model takes no other than its own.
  double rate_of(double rate) const;

  /// Throws a config Error for sides that are not multiples of `side`, and for a number of frames that no clip of this model has.
  void check(const Extent& extent) const;
};

/// Counts the latents of a line for so many seconds; there is one at least.
int64_t num_of_line(double seconds, int64_t latents_a_second);

/// Returns the space of pictures with one stream, "latents": a latent stands for `spatial` × `spatial` pixels, a token for `patch` ×
/// `patch` latents.
LatentSpace picture_space(int64_t channels, int64_t spatial, int64_t patch);

}  // namespace burnish::models
