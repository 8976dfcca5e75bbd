// What weight_format auto becomes.
#include "train/subject/auto_format.h"

#include <gmock/gmock.h>

#include "base/error.h"
#include "quant/int8_mm.h"
#include "tests/scratch.h"

using namespace burnish;
using namespace burnish::train;
using ::testing::HasSubstr;

namespace {

const c10::Device kGpu(c10::kCUDA);

ModelChoice named(const std::string& format = "auto") {
  ModelChoice choice;
  choice.fp8_models = "dit";
  choice.weight_format = format;
  return choice;
}

}  // namespace

TEST(AutoFormat, AFormatThatIsSaidStaysAndNothingIsPlanned) {
  auto choice = named("nf4");
  EXPECT_EQ(settle_format(choice, c10::kCPU, []() -> bool { throw std::logic_error("planned"); }), "");
  EXPECT_EQ(choice.weight_format, "nf4");
}

TEST(AutoFormat, OnAGpuCodesAreTakenWhereNumbersDoNotFit) {
  auto choice = named();
  EXPECT_THAT(settle_format(choice, kGpu, [] { return true; }), HasSubstr("leaves weights in bf16"));
  EXPECT_EQ(choice.fp8_models, "");
  check(choice);
  choice = named();
  EXPECT_THAT(settle_format(choice, kGpu, [] { return false; }), HasSubstr("does not fit in numbers"));
  EXPECT_EQ(choice.fp8_models, "dit");
  EXPECT_TRUE(choice.weight_format.starts_with("int8"));
  EXPECT_TRUE(choice.int8_compute);
  check(choice);
}

TEST(AutoFormat, OnACpuWhoseProductsOfCodesAreFasterTheyAreTakenAtOnce) {
  for (bool fit : {true, false}) {
    bool is_planned = false;
    auto choice = named();
    settle_format(choice, c10::kCPU, [&] { return is_planned = true, fit; });
    const bool has_products = quant::has_int8_products(c10::kCPU), is_faster = quant::rotated_products_are_faster(c10::kCPU);
    EXPECT_EQ(is_planned, !is_faster);
    EXPECT_EQ(choice.int8_compute, is_faster || (has_products && !fit));
    EXPECT_EQ(choice.fp8_models, is_faster || !fit ? "dit" : "");
    check(choice);
  }
}

TEST(AutoFormat, ProductsThatAreAskedForDecide) {
  auto choice = named();
  choice.fp8_compute = true;
  EXPECT_THAT(settle_format(choice, kGpu, [] { return true; }), HasSubstr("auto is fp8 with fp8_compute"));
  EXPECT_EQ(choice.weight_format, "fp8");
  choice = named();
  choice.int8_compute = true;
  settle_format(choice, kGpu, [] { return true; });
  EXPECT_TRUE(choice.weight_format.starts_with("int8"));
  choice = named();
  choice.int8_compute = choice.fp8_compute = true;
  EXPECT_THAT(test::error_of([&] { check(choice); }, Exit::config), HasSubstr("weight_format auto is one"));
}
