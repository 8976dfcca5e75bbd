#pragma once
#include "models/files/coding.h"

// Weights as ComfyUI has them, whose marks say their formats, and FP8 of whatever program.
namespace burnish::models {

/// Tells whether a tensor's name is that of a scale or a mark beside a layer's weight, or of a mark of the whole file.
bool is_scale_or_mark(std::string_view name);

/// Counts how many of a weight's `in` neighbours were rotated together, as its mark says; a data Error where that cannot be.
int64_t rotation_in(const nlohmann::json& mark, const std::string& name, int64_t in);

/// Finds FP8, whose scale is `<layer>.scale_weight` or `<layer>.weight_scale`, one number or one a row, or is not there.
std::optional<CodedWeight> find_fp8(const MarkedFiles& files, const std::string& name);

/// Finds `int8_tensorwise`: a scale, or one a row; rotated where the mark says `convrot`.
std::optional<CodedWeight> find_int8(const MarkedFiles& files, const std::string& name);

/// Finds `mxfp8`: E4M3 with an exponent for each 32 neighbours (OCP Microscaling Formats 1.0), laid out as cuBLAS reads them.
std::optional<CodedWeight> find_mxfp8(const MarkedFiles& files, const std::string& name);

/// Finds `nvfp4`: E2M1 with an E4M3 scale for each 16 neighbours and one for all; the first number of a byte is in its high half.
std::optional<CodedWeight> find_nvfp4(const MarkedFiles& files, const std::string& name);

/// Finds NVFP4 as ModelOpt and Black Forest Labs have it (diffusers' BFLQuantizationConfig): no mark but the scale of its inputs,
/// `<layer>.input_scale`; scales lie row by row, and the first number of a byte is in its low half.
std::optional<CodedWeight> find_unmarked_nvfp4(const MarkedFiles& files, const std::string& name);

/// Finds `convrot_w4a4`: whole numbers of four bits of rotated rows, with a scale a row; the first number of a byte is in its low half.
std::optional<CodedWeight> find_int4(const MarkedFiles& files, const std::string& name);

}  // namespace burnish::models
