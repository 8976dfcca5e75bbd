// Byte for byte what TensorBoard's own messages and writer make of the same records (tests/golden/make_events.py).
#include "records/event_file.h"

#include <gtest/gtest.h>

#include <fstream>
#include <nlohmann/json.hpp>

#include "tests/places.h"
#include "tests/scratch.h"

using namespace burnish;
using test::content;
using test::Scratch;

namespace {

const std::filesystem::path kGolden = std::filesystem::path(test::kCheckout) / "tests/golden/records";
constexpr double kStart = 1760000000;

std::vector<records::Record> golden_log() {
  std::vector<records::Record> log;
  std::ifstream file(kGolden / "log.jsonl");
  for (std::string line; std::getline(file, line);) log.push_back(records::to_record(nlohmann::json::parse(line)).value());
  return log;
}

}  // namespace

TEST(EventFile, IsWhatTensorBoardWrites) {
  Scratch folder;
  auto log = golden_log();
  ASSERT_EQ(log.size(), 4u);
  {
    records::EventFile events(folder.path(), 0, kStart);
    events.write(log[0]);
    events.write(log[1]);
    events.write_picture(2, kStart + 1.25, "samples/00", content(kGolden / "picture.png"));
    events.write({3, kStart + 1.5, {{"loss", 9.0}}});
  }
  records::EventFile resumed(folder.path(), 2, kStart + 60);
  resumed.write(log[2]);
  resumed.write(log[3]);
  for (const char* name : {"events.out.tfevents.1760000000.burnish", "events.out.tfevents.1760000060.burnish"}) {
    ASSERT_FALSE(content(kGolden / name).empty());
    EXPECT_EQ(content(folder / name), content(kGolden / name)) << name;
  }
}

TEST(EventFile, NeverWritesOverAnother) {
  Scratch folder;
  records::EventFile first(folder.path(), 0, kStart), second(folder.path(), 0, kStart);
  EXPECT_EQ(folder.num_files(), 2u);
  EXPECT_EQ(content(folder / "events.out.tfevents.1760000000.burnish"), content(folder / "events.out.tfevents.1760000000.burnish.1"));
}

TEST(EventFile, TakesNothingButPng) {
  Scratch folder;
  records::EventFile events(folder.path(), 0, kStart);
  EXPECT_THROW(events.write_picture(1, kStart, "samples/00", "GIF89a and what follows it in such a file"), std::logic_error);
}
