#include "base/dtype.h"

#include "base/input_error.h"

namespace burnish {

std::vector<std::string> dtype_choices() { return {"fp32", "bf16", "fp16"}; }

c10::ScalarType parse_dtype(std::string_view name) {
  if (name == "fp32" || name == "float32") return c10::kFloat;
  if (name == "bf16" || name == "bfloat16") return c10::kBFloat16;
  if (name == "fp16" || name == "float16") return c10::kHalf;
  config_error("base", "dtype '{}' is not known; choose fp32, bf16 or fp16", name);
}

std::string dtype_name(c10::ScalarType dtype) {
  switch (dtype) {
    case c10::kFloat: return "fp32";
    case c10::kDouble: return "fp64";
    case c10::kBFloat16: return "bf16";
    case c10::kHalf: return "fp16";
    case c10::kFloat8_e4m3fn: return "fp8_e4m3";
    case c10::kFloat8_e5m2: return "fp8_e5m2";
    case c10::kLong: return "int64";
    case c10::kInt: return "int32";
    case c10::kShort: return "int16";
    case c10::kChar: return "int8";
    case c10::kByte: return "uint8";
    case c10::kBool: return "bool";
    default: return c10::toString(dtype);
  }
}

}  // namespace burnish
