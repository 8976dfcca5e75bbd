// What a run says of options that make layers slower on the machine's processor.
#include "train/subject/slow_ways.h"

#include <gmock/gmock.h>

#include <chrono>
#include <thread>

#include "base/times_as_long.h"
#include "tests/train/options/small_options.h"
#include "train/plan/rehearsal.h"
#include "train/run/run.h"
#include "train/subject/subject.h"

using namespace burnish;
using namespace burnish::train;
using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

namespace {

/// What is said of a published model whose products take so long.
std::vector<std::string> said_of(std::vector<std::string> flags, const Measure& measure, c10::Device device = c10::kCPU,
                                 const std::string& model = "flux-dev") {
  std::vector<std::string> words{"--model", model,  "--max_steps", "1",   "--height",    "1024",
                                 "--width", "1024", "--device",    "cpu", "--lora_rank", "4"};
  words.insert(words.end(), flags.begin(), flags.end());
  auto options = test::options_of(words);
  options.model.is_plan = true;
  const auto settings = on_meta(settle(options, {}));
  const auto subject = open_subject(settings.model, settings.trained);
  return slow_ways(*subject, settings.model.storage, device, {}, measure);
}

const std::vector<std::string> kInt8{"--dtype", "fp32", "--fp8_models", "dit", "--weight_format", "int8", "--int8_compute"};

}  // namespace

TEST(SlowWays, ProductsThatTakeLongerThanTheWeightsAloneAreSaid) {
  const auto slow_products = [](const quant::Way& way, const quant::Way& other, const quant::Sides& sides) {
    EXPECT_EQ(sides.in, 1024);
    return way.by_codes && !other.by_codes ? 3.04 : 1.0;
  };
  EXPECT_THAT(said_of(kInt8, slow_products),
              ElementsAre(AllOf(HasSubstr("int8_compute takes 3.0 times as long"), HasSubstr("leave int8_compute out"))));
  EXPECT_THAT(said_of({"--dtype", "fp32", "--fp8_models", "dit", "--fp8_compute"}, slow_products),
              ElementsAre(HasSubstr("fp8_compute takes 3.0 times as long")));
}

TEST(SlowWays, RotationAndSixteenBitsAreComparedWithTheirPlainWays) {
  const auto slow_rotation = [](const quant::Way& way, const quant::Way& other, const quant::Sides&) {
    return way.codes == CodeKind::int8_convrot && other.codes == CodeKind::int8 ? 1.5 : 1.0;
  };
  EXPECT_THAT(said_of({"--dtype", "fp32", "--fp8_models", "dit", "--weight_format", "int8_convrot"}, slow_rotation),
              ElementsAre(HasSubstr("int8_convrot takes 1.5 times as long as int8")));
  const auto slow_bf16 = [](const quant::Way& way, const quant::Way& other, const quant::Sides&) {
    return way.dtype == at::kBFloat16 && other.dtype == at::kFloat ? 2.0 : 1.0;
  };
  EXPECT_THAT(said_of({"--dtype", "bf16"}, slow_bf16), ElementsAre(HasSubstr("dtype bf16 takes 2.0 times as long as fp32")));
}

TEST(SlowWays, NothingIsSaidOfWhatIsNotSlower) {
  const auto as_fast = [](const quant::Way&, const quant::Way&, const quant::Sides&) { return 1.05; };
  EXPECT_THAT(said_of(kInt8, as_fast), IsEmpty());
  const auto never_asked = [](const quant::Way&, const quant::Way&, const quant::Sides&) -> double {
    throw std::logic_error("measured what is not computed here");
  };
  EXPECT_THAT(said_of(kInt8, never_asked, c10::kCUDA), IsEmpty());
  EXPECT_THAT(said_of({"--dtype", "fp32"}, never_asked), IsEmpty());
}

TEST(SlowWays, AWayThatSleepsIsFoundByItsTime) {
  auto takes = [](int milliseconds) { return [=] { std::this_thread::sleep_for(std::chrono::milliseconds(milliseconds)); }; };
  EXPECT_GT(times_as_long(takes(40), takes(2), 3), 3);
  EXPECT_LT(times_as_long(takes(2), takes(40), 3), 0.5);
}

TEST(SlowWays, LayersAreMeasuredInEveryWay) {
  const quant::Sides sides{256, 512};
  for (auto kind : {CodeKind::e4m3, CodeKind::int8, CodeKind::int8_convrot, CodeKind::mxfp8, CodeKind::e2m1}) {
    const auto times = quant::times_as_long({kind, true, at::kFloat}, {kind, false, at::kFloat}, sides);
    EXPECT_GT(times, 0.05);
    EXPECT_EQ(times, quant::times_as_long({kind, true, at::kFloat}, {kind, false, at::kFloat}, sides)) << "it is measured once";
  }
  EXPECT_GT(quant::times_as_long({{}, false, at::kBFloat16}, {}, sides), 0.05);
}
