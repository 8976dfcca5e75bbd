#pragma once
#include <string>
#include <vector>

#include "data/clip.h"

namespace burnish::data {

/// Frames of a clip that are trained as one sample: `count` of them, one every 1 / rate seconds, from number `first` on.
struct ClipWindow {
  int64_t first = 0, count = 1;
  Fraction rate = {16, 1};

  /// Returns the times at which these frames are shown.
  std::vector<Fraction> times() const;
};

/// The rule by which windows are taken out of clips. A model takes one frame, or first_frames + k · step; one that takes pictures has a
/// step of 0, and no clips are read for it.
struct ClipRule {
  enum class Extraction {
    head,    ///< one window, from the start
    middle,  ///< one in the middle
    whole,   ///< one of as many frames as there are, up to num_frames where that is given
    chunks,  ///< as many as there is room for, one behind the other
    slide,   ///< one every `stride` frames
    uniform  ///< `num_windows`, spread evenly from the start to the end
  } extraction = Extraction::head;
  bool may_be_slower = false;  ///< whether a clip of a lower rate is taken frame by frame
  int64_t num_frames = 0;      ///< frames of a window, fewer where a clip is shorter; 0: kUsualFrames
  Fraction rate = {16, 1};     ///< frames a second; 0: those of the model, or of a slower clip its own
  int64_t stride = 1, num_windows = 4;
  int64_t first_frames = 1, step = 0;
};

/// Returns a fraction as a number.
double number_of(const Fraction& fraction);
/// Returns a number as a fraction of thousandths: 23.976 is 23976 / 1000.
Fraction as_fraction(double number);

/// Has a rule without a rate take that of the model, and of slower clips every frame.
void take_rate_of_model(ClipRule& rule, double rate);

/// The frames that DiffSynth-Studio's commands take where they name no number.
constexpr int64_t kUsualFrames = 81;

/// Throws a config Error for a number of frames that the model does not take; it names the two nearest.
void check_rule(const ClipRule& rule);

/// Returns the windows of a clip. No frame is taken twice: a clip whose own rate is within a twentieth below the rule's is taken frame by
/// frame, and so is one without times; a slower one is too where the rule says so, else it is refused with a data Error that names `file`,
/// and so is one that is too short for any window.
std::vector<ClipWindow> windows_of(const ClipRule& rule, const ClipLook& clip, const std::string& file);

/// Tells whether a clip is slower than a rule asks that takes its frames one by one then.
bool is_slower(const ClipRule& rule, const ClipLook& clip);

}  // namespace burnish::data
