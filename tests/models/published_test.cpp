// Published models that are known by name.
#include <gtest/gtest.h>

#include <set>

#include "hub/hub.h"
#include "models/registry.h"

namespace burnish::published_test {

/// Each is found by its name and by its id, and is of the kind that it says.
TEST(Published, NamesIdsAndKinds) {
  std::set<std::string> ids;
  for (const auto& name : models::published_models()) {
    const auto* published = models::find_published(name);
    ASSERT_NE(published, nullptr) << name;
    EXPECT_TRUE(hub::is_model_id(std::string(published->id))) << name;
    EXPECT_TRUE(ids.insert(std::string(published->id)).second) << published->id;
    EXPECT_EQ(models::find_published(std::string(published->id)), published);
    const auto model = models::open_published_model(name);
    // Opened with what reads reference pictures, each of these is one that edits.
    const auto edits = name == "qwen-image" || name == "qwen-image-edit" || name.starts_with("firered-");
    if (!edits) {
      EXPECT_EQ(model->names().variant, published->title) << name;
    }
    const auto* kind = models::published_of_kind(*model);
    ASSERT_NE(kind, nullptr) << name;
    EXPECT_EQ(kind->title, model->names().variant);
  }
  EXPECT_EQ(models::find_published("flux"), nullptr);
  EXPECT_EQ(models::find_published("sd15")->drawn.side, 512);
}

}  // namespace burnish::published_test
