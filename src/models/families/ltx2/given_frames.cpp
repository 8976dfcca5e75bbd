#include "models/families/ltx2/given_frames.h"

#include <ATen/TensorOperators.h>
#include <ATen/ops/_upsample_bicubic2d_aa.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/stack.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <optional>
#include <tuple>

#include "base/input_error.h"
#include "base/number.h"
#include "base/text.h"
#include "data/through_h264.h"

namespace burnish::models::ltx2 {

namespace {

const std::string kLastLatents = "last_latents", kKeyframeLatents = "keyframe_latents", kReferenceLatents = "in_context_latents";
constexpr const char *kCrf = "given_frame_crf", *kNumLast = "given_last_frames", *kPositions = "keyframe_positions";
constexpr const char *kLastShare = "given_last_frames_share", *kWithinShare = "keyframes_share";
/// The option by which rows that do not say it see reference clips; programs look for it in an adapter's metadata.
constexpr const char* kScale = "reference_downscale_factor";

int64_t frames_of(const at::Tensor& image) { return image.dim() == 5 ? image.size(2) : 1; }
/// The latents of so many frames.
int64_t num_latents(int64_t num_frames) { return (num_frames - 1) / kFramesALatent + 1; }

/// Reads numbers of frames behind the first, each above the one before it; nothing where a text is something else.
std::optional<std::vector<int64_t>> positions_in(const std::string& text) {
  const auto numbers = text.empty() ? std::vector<int64_t>() : parse_numbers<int64_t>(text);
  const bool is_rising = numbers && std::ranges::adjacent_find(*numbers, std::greater_equal<>()) == numbers->end();
  return is_rising && (numbers->empty() || numbers->front() > 0) ? numbers : std::nullopt;
}

std::string why_no_positions(const std::string& name, const OptionValue& value) {
  const auto& text = std::get<std::string>(value);
  if (positions_in(text)) return "";
  return fmt::format("{} is '{}', and numbers of frames were expected, the first frame being 0, each above the one before it: 40,80", name,
                     text);
}

/// Several last frames lie within a row's clip; what is drawn has those of another clip, of which these are the first.
Column last_frames_column(int64_t count) {
  auto column = kLastFrame;
  if (count == 1) return column;
  column.is = Column::Is::clip;
  column.given = Column::Given::by_prompts;
  column.frames.first = count;
  return column;
}

/// Returns the k-th of `count` pictures that each sample's list names, or where a list is empty the sample's own frame: [B, 3, H, W].
at::Tensor keyframe_in(const pipeline::TensorLists& lists, size_t k, size_t count, const at::Tensor& own_BCHW) {
  std::vector<at::Tensor> frames;
  for (int64_t b = 0; b < own_BCHW.size(0); ++b) {
    const auto& given = lists.at(static_cast<size_t>(b));
    if (!given.empty() && given.size() != count)
      data_error("models", "the column '{}' has {} pictures, and {} names {} frames; give as many", kKeyframes.name, given.size(),
                 kPositions, count);
    frames.push_back(given.empty() ? own_BCHW[b] : given[k].to(own_BCHW.options()));
  }
  return at::stack(frames);
}

Grid grid_of(const at::Tensor& latents) { return {latents.dim() == 5 ? latents.size(2) : 1, latents.size(-2), latents.size(-1)}; }

/// Reads how many times smaller a reference is seen.
int64_t scale_in(const at::Tensor& cell) {
  const auto number = cell.flatten()[0].item<double>();
  const auto scale = static_cast<int64_t>(number);
  if (static_cast<double>(scale) != number || scale < 1)
    data_error("models", "the {} is {}, and a whole number of at least 1 was expected", kReferenceScale.name, number);
  return scale;
}

/// The pixels of a side that is so many times smaller, in whole latents.
int64_t smaller(int64_t side, int64_t scale) {
  const auto of_latent = scale * kPixelsALatent;
  return (side + of_latent - 1) / of_latent * kPixelsALatent;
}

/// Tells how many times smaller latents are than a clip's: their sides are rounded up.
int64_t scale_between(const Grid& target, const Grid& reference) {
  auto of_side = [](int64_t whole, int64_t part) { return (whole + part - 1) / part; };
  return std::max(of_side(target.rows, reference.rows), of_side(target.columns, reference.columns));
}

/// Scales clips [B, 3, F, H, W] down, as DiffSynth-Studio's pictures are.
at::Tensor scaled(const at::Tensor& clip, int64_t height, int64_t width) {
  if (height == clip.size(3) && width == clip.size(4)) return clip;
  const auto frames = clip.transpose(1, 2).flatten(0, 1).contiguous();
  const auto small = at::_upsample_bicubic2d_aa(frames, {height, width}, /*align_corners=*/false).clamp(-1, 1);
  return small.unflatten(0, {clip.size(0), clip.size(2)}).transpose(1, 2).contiguous();
}

/// Returns single frames [B, 3, H, W] as they are given.
at::Tensor as_given(const at::Tensor& frames_BCHW, int64_t crf) { return crf == 0 ? frames_BCHW : data::through_h264(frames_BCHW, crf); }

/// Adds to what a unit was made with how its single frames are compressed.
pipeline::Unit with_crf(pipeline::Unit unit, int64_t crf) {
  if (crf > 0) unit.settings += fmt::format("{}single frames through H.264 at {}", unit.settings.empty() ? "" : ", ", crf);
  return unit;
}

}  // namespace

std::vector<Option> given_frames_options() {
  const std::string elsewhere = "it is of LTX-2, leave it out";
  return {
      first_share_option(),
      given_share_option(kLastShare, "last frames of a clip", "extra_inputs end_image"),
      given_share_option(kWithinShare, "frames within a clip", "extra_inputs keyframes"),
      given_frames_option(),
      {.name = kNumLast,
       .help =
           "last frames of a clip that LTX-2 is given, with extra_inputs end_image or when drawing --end_image, which is a clip then: 1 "
           "and a multiple of 8",
       .otherwise = int64_t{1},
       .elsewhere = elsewhere,
       .least = 1},
      {.name = kPositions,
       .help = "numbers of frames within a clip, from 0 on, that LTX-2 is given, with extra_inputs keyframes or when drawing --keyframes: "
               "40,80",
       .otherwise = std::string(),
       .elsewhere = elsewhere,
       .why_wrong = why_no_positions},
      {.name = kCrf,
       .help = "constant rate factor at which single frames that LTX-2 is given go through H.264 before they are encoded, by FFmpeg with "
               "libx264: diffusers and DiffSynth-Studio have 33, and of LTX-2.5 diffusers 18; 0 leaves them as they are",
       .otherwise = int64_t{0},
       .elsewhere = elsewhere,
       .least = 0,
       .most = 51},
      {.name = kScale,
       .help = "how many times smaller than what it makes LTX-2 sees reference clips of rows and prompts without an "
               "in_context_downsample_factor; adapters say it in their metadata, which is taken where the option is not given",
       .otherwise = int64_t{2},
       .elsewhere = elsewhere,
       .least = 1}};
}

GivenFrames::GivenFrames(const ModelOptions& options, int64_t channels)
    : first_{options.references, options.get<int64_t>(kGivenFrames), {kGivesFirst, options.get<double>(kFirstShare)}},
      last_{options.extra_inputs.contains(kLastFrame.name), options.get<int64_t>(kNumLast), {kGivesLast, options.get<double>(kLastShare)}},
      has_reference_(options.extra_inputs.contains(kReferenceClip.name)),
      channels_(channels),
      crf_(options.get<int64_t>(kCrf)),
      keyframes_(positions_in(options.get<std::string>(kPositions)).value_or(std::vector<int64_t>())),
      within_at_(kGivesWithin, options.get<double>(kWithinShare)) {
  check_given_frames(kGivenFrames, first_.count, kFramesALatent);
  check_given_frames(kNumLast, last_.count, kFramesALatent);
  if (last_.count > 1 && !last_.are_given)
    config_error("models", "{} says how many last frames are given, and none are; name {} in extra_inputs, when drawing --{}", kNumLast,
                 kLastFrame.name, kLastFrame.name);
  if (options.extra_inputs.contains(kKeyframes.name) == keyframes_.empty())
    config_error("models", "{} and {} go together, frames within a clip and their numbers; give both", kKeyframes.name, kPositions);
  check_shares(options);
  const bool gives_single = (first_.are_given && first_.count == 1) || (last_.are_given && last_.count == 1) || !keyframes_.empty();
  if (crf_ > 0 && !gives_single)
    config_error("models", "{} compresses single frames that are given, and none are; name {} in extra_inputs, or take it out", kCrf,
                 kFirstFrameColumn);
  const bool is_said = options.extra_inputs.contains(kReferenceScale.name);
  if (!is_said) scale_ = options.get<int64_t>(kScale);
  if (is_said && !has_reference_)
    config_error("models", "{} says how much smaller than the target a clip beside it is seen, and none is; name {} too",
                 kReferenceScale.name, kReferenceClip.name);
}

void GivenFrames::check_shares(const ModelOptions& options) const {
  const std::tuple<const char*, bool, std::string> shares[]{{kFirstShare, first_.are_given, std::string(kFirstFrameColumn)},
                                                            {kLastShare, last_.are_given, kLastFrame.name},
                                                            {kWithinShare, !keyframes_.empty(), kKeyframes.name}};
  for (const auto& [option, are_given, column] : shares) {
    if (options.get<double>(option) < 1 && !are_given)
      config_error("models", "{} says at which share of visits frames are given, and none are; name {} in extra_inputs, or take it out",
                   option, column);
  }
}

void GivenFrames::add_names(Names& names) const {
  if (first_.are_given) first_.at.add_names(names);
  if (last_.are_given) last_.at.add_names(names);
  if (!keyframes_.empty()) within_at_.add_names(names);
  if (first_.are_given) {
    names.references.column = kFirstFrameColumn;
    names.values[kFirst] = {.shape = {-1, channels_, num_latents(first_.count), -1, -1}};
    names.values[kLossMap] = {};
  }
  if (last_.are_given) {
    names.extra_inputs.push_back(last_frames_column(last_.count));
    names.values[kLastLatents] = {.shape = {-1, channels_, num_latents(last_.count), -1, -1}};
  }
  if (!keyframes_.empty()) {
    names.extra_inputs.push_back(kKeyframes);
    names.values[kKeyframeLatents] = {.shape = {-1, channels_, std::ssize(keyframes_), -1, -1}};
  }
  if (!scale_) names.extra_inputs.push_back(kReferenceScale);
  if (!has_reference_) return;
  if (scale_) names.file_words.prediction[kScale] = std::to_string(*scale_);
  names.extra_inputs.push_back(kReferenceClip);
  names.values[kReferenceLatents] = {.shape = {-1, channels_, -1, -1, -1}, .diffsynth = {.name = "in_context_video_latents"}};
}

/// A single last frame is the one that a row names, or its own; of several the clip that is drawn has what prompts give.
pipeline::Unit GivenFrames::last_frames_unit(const std::string& vae, const Encode& encode) const {
  const bool is_single = last_.count == 1;
  std::vector<std::string> reads{kTarget};
  if (is_single) reads.push_back(kLastFrame.name);
  pipeline::Unit unit{
      "encode_last_frame", reads, {kLastLatents}, {vae}, [=, count = last_.count, crf = crf_](pipeline::Scope& s) {
        s.uses(vae);
        const auto& image = s.tensor(kTarget);
        const auto num_frames = frames_of(image);
        if (num_frames <= count)
          config_error("models",
                       "the last frames of a clip are given, {} of them, and this one has {}; give fewer with {}, or clips of "
                       "more frames",
                       count, num_frames, kNumLast);
        const auto own = as_clip(image.narrow(2, num_frames - count, count));
        s.write(kLastLatents,
                encode(is_single ? as_given(frames_in(s, kLastFrame.name, own.select(2, 0)), crf).unsqueeze(2) : own).mean_BCHW);
      }};
  if (is_single) return with_crf(std::move(unit), crf_);
  unit.settings = std::to_string(last_.count) + " given last frames";
  return unit;
}

/// Each is encoded as a picture of its own.
pipeline::Unit GivenFrames::keyframes_unit(const std::string& vae, const Encode& encode) const {
  pipeline::Unit unit{
      "encode_keyframes", {kTarget, kKeyframes.name}, {kKeyframeLatents}, {vae}, [=, numbers = keyframes_, crf = crf_](pipeline::Scope& s) {
        s.uses(vae);
        const auto& image = s.tensor(kTarget);
        if (numbers.back() >= frames_of(image))
          config_error("models",
                       "{} names the frame {}, and this clip has {}, of which the first is 0; name others, or give "
                       "clips of more frames",
                       kPositions, numbers.back(), frames_of(image));
        const auto& lists = s.lists(kKeyframes.name);
        std::vector<at::Tensor> latents;
        for (size_t k = 0; k < numbers.size(); ++k) {
          const auto own = as_clip(image.narrow(2, numbers[k], 1)).select(2, 0);
          latents.push_back(encode(as_given(keyframe_in(lists, k, numbers.size(), own), crf).unsqueeze(2)).mean_BCHW);
        }
        s.write(kKeyframeLatents, at::cat(latents, 2));
      }};
  unit.settings = fmt::format("the frames {}", fmt::join(keyframes_, ", "));
  return with_crf(std::move(unit), crf_);
}

/// Reference clips come one behind the other.
pipeline::Unit GivenFrames::reference_unit(const std::string& vae, const Encode& encode) const {
  std::vector<std::string> reads{kReferenceClip.name, kNumFrames};
  if (!scale_) reads.push_back(kReferenceScale.read_as());
  auto run = [=, of_all = scale_](pipeline::Scope& s) {
    s.uses(vae);
    const auto clips = as_clip(s.tensor(kReferenceClip.name));
    const auto scale = of_all ? *of_all : scale_in(s.tensor(kReferenceScale.read_as()));
    const auto height = smaller(clips.size(3), scale), width = smaller(clips.size(4), scale);
    const Grid target{1, clips.size(3) / kPixelsALatent, clips.size(4) / kPixelsALatent};
    if (scale_between(target, {1, height / kPixelsALatent, width / kPixelsALatent}) != scale)
      config_error("models", "a reference clip {} times smaller than {} by {} pixels is less than one latent of {}; give a smaller {}",
                   scale, clips.size(4), clips.size(3), kPixelsALatent, kReferenceScale.name);
    std::vector<at::Tensor> latents;
    for (const auto& clip : clips.split(s.tensor(kNumFrames).item<int64_t>(), 2))
      latents.push_back(encode(scaled(clip, height, width)).mean_BCHW);
    s.write(kReferenceLatents, at::cat(latents, 2));
  };
  pipeline::Unit unit{"encode_reference_clip", reads, {kReferenceLatents}, {vae}, run};
  if (scale_) unit.settings = fmt::format("{} times smaller", *scale_);
  return unit;
}

void GivenFrames::add_units(UnitGroups& groups, const std::string& vae, const Encode& encode) const {
  groups.encode_references = {};  // which reads the clip itself
  if (first_.are_given) {
    const auto own = [crf = crf_](const pipeline::Scope&, const at::Tensor& frames) { return as_given(frames, crf); };
    groups.encode_references = first_.count > 1 ? held_beginning_units(vae, encode, first_.count)
                                                : pipeline::Units{with_crf(held_frame_units(vae, encode, {}, own).front(), crf_)};
    groups.weigh = held_frame_weights(num_latents(first_.count), first_.at);
  }
  if (last_.are_given) groups.encode_references.push_back(last_frames_unit(vae, encode));
  if (!keyframes_.empty()) groups.encode_references.push_back(keyframes_unit(vae, encode));
  if (has_reference_) groups.encode_references.push_back(reference_unit(vae, encode));
}

std::vector<std::string> GivenFrames::read_to_tell() const {
  std::vector<std::string> reads;
  if (first_.are_given) first_.at.add_to(reads);
  if (last_.are_given) last_.at.add_to(reads);
  if (!keyframes_.empty()) within_at_.add_to(reads);
  return reads;
}

bool GivenFrames::are_any(const pipeline::Scope& scope) const {
  // All are asked, as a unit that is audited reads all that it declares.
  const bool first = are_first(scope), last = are_last(scope), within = are_within(scope);
  return first || last || within || has_reference_;
}

std::vector<std::string> GivenFrames::reads() const {
  auto reads = read_to_tell();
  if (first_.are_given) reads.push_back(kFirst);
  if (last_.are_given) reads.push_back(kLastLatents);
  if (!keyframes_.empty()) reads.push_back(kKeyframeLatents);
  if (has_reference_) reads.push_back(kReferenceLatents);
  return reads;
}

void GivenFrames::give(const pipeline::Scope& scope, Transformer::Inputs& in) const {
  auto here = [&](const std::string& name) { return scope.tensor(name).to(in.noisy_BCFHW.device()); };
  const auto target = grid_of(in.noisy_BCFHW);
  if (are_first(scope)) {
    const auto first = here(kFirst);
    in.noisy_BCFHW = with_first(in.noisy_BCFHW, first);
    in.num_given = first.size(2);
  }
  if (are_within(scope)) {
    const auto latents = here(kKeyframeLatents);
    for (size_t k = 0; k < keyframes_.size(); ++k) {
      const auto one = latents.narrow(2, static_cast<int64_t>(k), 1);
      in.beside.push_back({one, places_of_given(grid_of(one), in.rate_B, keyframes_[k])});
    }
  }
  if (are_last(scope)) {
    const auto last = here(kLastLatents);
    const auto num_frames = (target.num_frames - 1) * kFramesALatent + 1;
    in.beside.push_back({last, places_of_given(grid_of(last), in.rate_B, num_frames - last_.count)});
  }
  if (!has_reference_) return;
  for (const auto& latents : here(kReferenceLatents).split(target.num_frames, 2)) {
    const auto grid = grid_of(latents);
    in.beside.push_back({latents, places_of_reference(grid, in.rate_B, scale_between(target, grid))});
  }
}

}  // namespace burnish::models::ltx2
