#pragma once
#include <cstdint>
#include <string>
#include <string_view>

namespace burnish::data {

/// Refuses a HEIC or AVIF file of which a coded stream says that it has far more pixels than any picture in the file: decoders make room
/// for what the stream says before they look at what is in it, and 1 KB may say 10^9 pixels. Looks at sequence headers of AV1 (its
/// specification 5.5.1) and parameter sets of HEVC (ITU-T H.265 7.3.2.2) in properties and items (ISO/IEC 14496-12 8.11). A data Error also
/// where its boxes are damaged.
void check_streams(std::string_view bytes, const std::string& file);

}  // namespace burnish::data
