#pragma once
#include <c10/core/ScalarType.h>

#include <string>
#include <string_view>
#include <vector>

namespace burnish {

/// Returns what users write of dtypes for computing: "fp32", "bf16", "fp16".
std::vector<std::string> dtype_choices();

/// The dtype that users write ("fp32", "bf16", "fp16"); throws a config Error for anything else.
c10::ScalarType parse_dtype(std::string_view name);

/// Names a dtype as users write it: "fp32", "bf16", "fp16", "fp8_e4m3", "fp8_e5m2", "int64", ...
std::string dtype_name(c10::ScalarType dtype);

}  // namespace burnish
