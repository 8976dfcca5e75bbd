#pragma once
#include "foreign/table.h"

namespace burnish::foreign {

/// Returns as many frames as MiniMax-H3 takes of so many: 1, or 5 and a multiple of 17, the next number below.
int64_t frames_of_h3(double number);

/// The shift of its noise, in all programs that take it by themselves.
inline constexpr double kShiftOfH3 = 12;

/// Its layers that carry adapters in most programs: attention and MLPs of the blocks; and with those of the blocks that read the text.
inline constexpr const char *kBlocksOfH3 = "transformer_blocks\\.[0-9]+\\.(attn|ff)\\..*",
                            *kBlocksAndTextOfH3 = "(transformer_blocks|token_refiner\\.refiner_blocks)\\.[0-9]+\\.(attn|ff)\\..*";

/// Where references stand here, of which other programs have files beside each sample's.
inline constexpr const char* kReferencesOfH3 =
    "name the pictures, clips and sounds of each sample in the column references of a metadata file, in their order (docs/h3.md)";

/// The columns of given frames or of references, "" for none, and of the sound that is learned with clips.
inline std::string with_sound(const std::string& frames) { return frames.empty() ? "input_audio" : frames + ",input_audio"; }

}  // namespace burnish::foreign
