#pragma once
#include "foreign/table.h"

namespace burnish::foreign {

/// Returns as many frames as LTX-2 takes of so many: 1 and a multiple of 8, the next number below.
int64_t frames_of_ltx(double number);

/// Carries as many frames as LTX-2 takes of so many, with a note where these are others.
Outcome carried_frames_of_ltx(const Value& number);

/// All layers of its blocks; and those of frames alone, which are all that a clip without sound reaches.
inline constexpr const char *kBlocksOfLtx = R"(transformer_blocks\.[0-9]+\..*)",
                            *kFramesOfLtx = R"(transformer_blocks\.[0-9]+\.(attn1|attn2|ff)\..*)";

}  // namespace burnish::foreign
