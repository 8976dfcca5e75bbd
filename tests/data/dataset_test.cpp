#include "data/dataset.h"

#include <ATen/ATen.h>
#include <gmock/gmock.h>

#include "data/image.h"
#include "tests/golden.h"
#include "tests/rows.h"
#include "tests/scratch.h"

using namespace burnish;
using data::Dataset;
using data::DatasetOptions;
using test::error_of;
using test::Scratch;
using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

namespace {

/// A folder with three good pictures and every kind of bad one.
class Pictures : public ::testing::Test {
 protected:
  Pictures() {
    for (const char* name : {"rgb.jpg", "rgb.png", "lossy.webp"}) copy(name, name);
    auto jpeg = test::content(test::golden_path("data/rgb.jpg"));
    scratch.write("cut.jpg", jpeg.substr(0, jpeg.size() * 2 / 3));
    scratch.write("empty.png", "");
    scratch.write("text.png", "no picture");
    std::filesystem::create_directory(scratch / "folder.png");
    copy("gray_16.png", "small.png");
  }
  void copy(const std::string& from, const std::string& to) { scratch.write(to, test::content(test::golden_path("data/" + from))); }
  DatasetOptions options(const std::string& name, const std::string& text, bool skip = false) {
    DatasetOptions o{.subsets = {{scratch.path(), scratch.write(name, text).string()}}};
    o.skip_bad_samples = skip;
    return o;
  }
  std::string refusal(const std::string& name, const std::string& text, bool skip = false) {
    auto o = options(name, text, skip);
    return error_of([&] { Dataset{o}; });
  }
  Scratch scratch;
};

const char* kMixed =
    "image,prompt\n"
    "missing.png,a\n"
    "rgb.jpg,b\n"
    "cut.jpg,c\n"
    ",d\n"
    "empty.png,e\n"
    "rgb.png,\n"
    "text.png,g\n"
    "folder.png,h\n"
    "small.png,i\n"
    "lossy.webp,j\n";

}  // namespace

TEST_F(Pictures, SkippingNamesAndCountsTheBadOnes) {
  Dataset dataset(options("m.csv", kMixed, true));
  EXPECT_THAT(dataset.rows(), ElementsAre(1, 5, 9));
  const auto& bad = dataset.bad_samples();
  ASSERT_EQ(bad.size(), 7u);
  EXPECT_THAT(bad.at(0), AllOf(HasSubstr("missing.png"), HasSubstr("does not exist")));
  EXPECT_THAT(bad.at(2), AllOf(HasSubstr("cut.jpg"), HasSubstr("cannot be decoded")));
  EXPECT_THAT(bad.at(3), HasSubstr("'image' names no file"));
  EXPECT_THAT(bad.at(4), AllOf(HasSubstr("empty.png"), HasSubstr("empty")));
  EXPECT_THAT(bad.at(6), HasSubstr("not a JPEG, PNG, WebP"));
  EXPECT_THAT(bad.at(7), HasSubstr("folder.png"));
  EXPECT_THAT(bad.at(8), HasSubstr("14 by 9 pixels"));
  EXPECT_THAT(error_of([&] { test::read_target(dataset, 2); }), AllOf(HasSubstr("row 2 cannot be used"), HasSubstr("cut.jpg")));
  EXPECT_THAT(error_of([&] { test::read_target(dataset, 99); }), HasSubstr("no such row"));
}

TEST_F(Pictures, WhatWasDecodedOnceIsRemembered) {
  auto o = options("m.csv", "image,prompt\n" + test::golden_path("data/rgb.png") + ",a\nrgb.jpg,b\n");
  o.checks_folder = scratch / "checks";
  Dataset first(o);
  EXPECT_FALSE(std::filesystem::exists(o.checks_folder)) << "nothing is written before the run says so";
  first.save_checks();
  auto file = std::filesystem::directory_iterator(o.checks_folder)->path();
  auto notes = nlohmann::json::parse(test::content(file));
  ASSERT_EQ(notes.size(), 1u) << "a file of this moment may change once more";
  EXPECT_THAT(notes.begin().key(), HasSubstr("rgb.png|"));
  notes.begin().value() = "40 30";
  std::ofstream(file) << notes;
  Dataset second(o);
  EXPECT_EQ(second.looked(0).picture, (data::Size{40, 30})) << "it was decoded again";
  EXPECT_EQ(second.looked(1).picture, first.looked(1).picture);
  for (const char* damaged : {"", "{", "[]", "{\"a\": 5}"}) {
    std::ofstream(file) << damaged;
    EXPECT_EQ(Dataset(o).looked(0).picture, first.looked(0).picture);
  }
  notes.begin().value() = "0 30";
  std::ofstream(file) << notes;
  EXPECT_THAT(error_of([&] { Dataset{o}; }), AllOf(HasSubstr("is remembered"), HasSubstr("remove")));
}

TEST_F(Pictures, WhatIsRememberedIsOfAllSubsets) {
  auto png = test::golden_path("data/rgb.png"), jpg = test::golden_path("data/rgb.jpg");
  auto o = options("m.csv", "image,prompt\n" + png + ",a\n");
  o.subsets.push_back({scratch.path(), scratch.write("n.csv", "image,prompt\n" + png + ",a\n" + jpg + ",b\n"), {16, 32}});
  o.checks_folder = scratch / "checks";
  Dataset first(o);
  first.save_checks();
  std::filesystem::directory_iterator files(o.checks_folder);
  EXPECT_EQ(nlohmann::json::parse(test::content(files->path())).size(), 2u);
  EXPECT_EQ(++files, std::filesystem::directory_iterator());
  Dataset second(o);
  EXPECT_EQ(second.extent(0), first.extent(0));
  EXPECT_EQ(second.extent(1), (Extent{1, 16, 32})) << "sizes are the subset's, and are not remembered";
  EXPECT_EQ(second.looked(2).picture, first.looked(2).picture);
}

TEST_F(Pictures, CaptionsStayWithTheirPictures) {
  // A row without a caption must not shift those behind it.
  Dataset dataset(options("m.jsonl", R"({"image":"rgb.png"}
{"image":"rgb.jpg","prompt":"the second"}
{"image":"rgb.png","prompt":17}
{"image":"lossy.webp","prompt":"the fourth"})",
                          true));
  EXPECT_THAT(dataset.rows(), ElementsAre(1, 3));
  EXPECT_EQ(dataset.row(1).prompt, "the second");
  EXPECT_EQ(dataset.row(3).prompt, "the fourth");
  EXPECT_THAT(dataset.row(3).file, HasSubstr("lossy.webp"));
  EXPECT_THAT(dataset.bad_samples().at(0), HasSubstr("no column named prompt"));
  EXPECT_THAT(dataset.bad_samples().at(2), HasSubstr("the prompt is of type number"));
}

TEST_F(Pictures, StoppingNamesTheFirstAndCountsAll) {
  EXPECT_THAT(refusal("m.csv", kMixed), AllOf(HasSubstr("7 of 10 samples cannot be used"), HasSubstr("row 0"), HasSubstr("missing.png"),
                                              HasSubstr("--on_bad_sample skip")));
}

TEST_F(Pictures, NothingLeftIsAnErrorEvenWhenSkipping) {
  EXPECT_THAT(refusal("m.csv", "image,prompt\nx.png,a\ny.png,b\n", true), AllOf(HasSubstr("none of the 2 samples"), HasSubstr("x.png")));
}

TEST_F(Pictures, MissingColumns) {
  EXPECT_THAT(refusal("m.csv", "image,title\nrgb.png,a\n"), AllOf(HasSubstr("no column named prompt"), HasSubstr("image, title")));
  EXPECT_THAT(refusal("m.csv", "file,prompt\nrgb.png,a\n"),
              AllOf(HasSubstr("none of the columns image,video"), HasSubstr("--data_file_keys")));
  auto o = options("m.csv", "file,caption\nrgb.png,a\n");
  o.data_file_keys = "file";
  EXPECT_EQ(Dataset(o).row(0).prompt, "a");
}

TEST_F(Pictures, HostileValues) {
  std::string deep = std::string(1'000'000, '[') + std::string(1'000'000, ']');
  EXPECT_THAT(refusal("m.json", R"([{"image":"rgb.png","prompt":)" + deep + "}]"), HasSubstr("nested deeper than 100 levels"));
  EXPECT_THAT(refusal("m.json", R"([{"image":"rgb.png","prompt":[1]}])"), HasSubstr("a caption in the list 'prompt' is no text"));
  EXPECT_THAT(refusal("m.json", R"([{"image":["rgb.png"],"prompt":"a"}])"), HasSubstr("'image' names several files"));
  EXPECT_THAT(refusal("m.csv", "image,prompt\n" + std::string(400, 'x') + ",a\n"), HasSubstr("does not exist"));
}

TEST_F(Pictures, LoadsAtTheTrainedSize) {
  Dataset dataset(options("m.csv", "image,prompt\nrgb.jpg,a\n"));
  EXPECT_EQ(dataset.extent(0), (Extent{1, 32, 48}));
  const auto pixels_HW3 = test::read_target(dataset, 0);
  EXPECT_EQ(pixels_HW3.sizes(), (std::vector<int64_t>{32, 48, 3}));
  EXPECT_EQ(pixels_HW3.scalar_type(), at::kByte);
}

TEST_F(Pictures, VariantsAreCutsOfTheScaledPicture) {
  auto o = options("m.csv", "image,prompt\nrgb.jpg,a\nrgb.png,b\n");
  o.subsets[0].size = {.height = 32, .width = 32};
  Dataset centre(o);
  o.subsets[0].augmentation = {.random_crop = true, .random_flip = true, .num_variants = 8};
  Dataset dataset(o);
  std::set<data::Crop> crops;
  for (int64_t row : dataset.rows()) {
    int num_flipped = 0;
    for (int64_t v = 0; v < 8; ++v) {
      auto crop = data::crop_of(dataset, row, v);
      auto pixels = data::decode_image(dataset.row(row).file);
      auto scaled = data::covering_size({pixels.size(0), pixels.size(1)}, crop.size);
      EXPECT_TRUE(crop.top >= 0 && crop.top + 32 <= scaled.height && crop.left >= 0 && crop.left + 32 <= scaled.width);
      EXPECT_TRUE(crop == data::crop_of(Dataset(o), row, v)) << "the same in every run";
      num_flipped += crop.flip;
      crops.insert(crop);
      auto whole = data::resize_and_crop(pixels, data::Crop{scaled});
      auto cut = whole.narrow(0, crop.top, 32).narrow(1, crop.left, 32);
      EXPECT_TRUE(at::equal(test::read_target(dataset, row, v), crop.flip ? cut.flip({1}) : cut));
    }
    EXPECT_EQ(num_flipped, 4);
    EXPECT_EQ(data::content_of_crop(centre, row, 0), "cut to 32x32") << "from its centre";
  }
  EXPECT_GT(crops.size(), 6u);
  EXPECT_TRUE(at::equal(test::read_target(centre, 0), test::read_target(centre, 0, 3))) << "without augmentation all are the centre";
}

TEST_F(Pictures, FurtherPicturesAndMasksAreCutAsTheRowsPicture) {
  copy("rgba.png", "rgba.png");
  auto alpha = data::decode_alpha(scratch / "rgba.png");
  data::write_png(scratch / "mask.png", alpha.expand({-1, -1, 3}));
  auto o = options("m.csv", "image,prompt,mask,rejected\nrgba.png,a,mask.png,rgba.png\nrgb.jpg,b,,\n");
  o.subsets[0].size = {.height = 32, .width = 32};
  o.subsets[0].augmentation = {.random_crop = true, .random_flip = true, .num_variants = 6};
  o.columns = {test::beside("rejected"), mask_column("mask")};
  Dataset by_column(o);
  o.columns = {opacity_column()};
  Dataset by_alpha(o);
  for (int64_t v = 0; v < 6; ++v) {
    EXPECT_TRUE(at::equal(test::read_beside(by_column, 0, "rejected", v), test::read_target(by_column, 0, v))) << v;
    auto mask = test::read_mask(by_column, 0, v);
    EXPECT_TRUE(at::equal(mask, test::read_mask(by_alpha, 0, v))) << v;
    EXPECT_TRUE(at::equal(mask, data::resize_and_crop(alpha, data::crop_of(by_column, 0, v)))) << v;
  }
  EXPECT_FALSE(test::read_mask(by_column, 1).defined()) << "an empty cell names none";
  EXPECT_TRUE((test::read_mask(by_alpha, 1) == 255).all().item<bool>());
  EXPECT_EQ(by_column.row(0).further.at("mask"), (scratch / "mask.png").string());
  EXPECT_THAT(error_of([&] { test::read_beside(by_column, 1, "rejected"); }), HasSubstr("row 1 names no picture in the column 'rejected'"));
}

TEST_F(Pictures, FurtherPicturesOfAnySizeAreCutToTheirSquare) {
  auto o = options("m.csv", "image,prompt,face\nrgb.jpg,a,small.png\n");
  o.subsets[0].size = {.height = 32, .width = 32};
  o.subsets[0].augmentation = {.random_crop = true, .random_flip = true, .num_variants = 2};
  o.columns = {test::beside("face")};
  o.columns[0].fit = Column::Fit::square;
  o.columns[0].side = 8;
  Dataset dataset(o);
  auto small = data::decode_image(scratch / "small.png");
  for (int64_t v = 0; v < 2; ++v) {
    auto crop = data::centre_crop({small.size(0), small.size(1)}, {8, 8});
    crop.flip = data::crop_of(dataset, 0, v).flip;
    EXPECT_TRUE(at::equal(test::read_beside(dataset, 0, "face", v), data::resize_and_crop(small, crop))) << v;
  }
}

TEST_F(Pictures, FurtherPicturesThatCannotBeUsedAreNamed) {
  auto refused = [&](const std::string& cell) {
    auto o = options("m.csv", "image,prompt,mask\nrgb.jpg,a," + cell + "\n");
    o.columns = {mask_column("mask")};
    return error_of([&] { Dataset{o}; });
  };
  EXPECT_THAT(refused("gone.png"), AllOf(HasSubstr("row 0"), HasSubstr("gone.png does not exist")));
  EXPECT_THAT(refused("cut.jpg"), HasSubstr("cannot be decoded"));
  EXPECT_THAT(refused("small.png"), AllOf(HasSubstr("the mask"), HasSubstr("14 by 9 pixels"), HasSubstr("cut alike")));
}

TEST_F(Pictures, ReferencePicturesAreCutByTheirOwnSize) {
  auto o = options("m.jsonl", R"({"image": "rgb.jpg", "prompt": "a", "kontext_images": ["rgb.png", "small.png", "lossy.webp"]})"
                              "\n"
                              R"({"image": "rgb.jpg", "prompt": "b", "kontext_images": "small.png"})"
                              "\n"
                              R"({"image": "rgb.jpg", "prompt": "c", "kontext_images": null})"
                              "\n");
  o.subsets[0].size = {.max_pixels = 600, .division = 8};
  o.subsets[0].augmentation = {.random_flip = true, .num_variants = 2};
  o.data_file_keys = "kontext_images,image";
  o.columns = {test::list_of("kontext_images")};
  Dataset dataset(o);
  EXPECT_EQ(dataset.row(0).file, (scratch / "rgb.jpg").string()) << "a column of references names no picture to train";
  EXPECT_THAT(dataset.row(0).further, ::testing::SizeIs(3));
  EXPECT_EQ(dataset.row(0).further.at("kontext_images 3"), (scratch / "lossy.webp").string());
  EXPECT_EQ(data::picture_crops(dataset, 1, o.columns[0]).at(0).size, (data::Size{8, 8})) << "14 by 9 pixels, each side rounded down";
  EXPECT_TRUE(test::read_list(dataset, 2, "kontext_images").empty());
  for (int64_t v = 0; v < 2; ++v) {
    auto references = test::read_list(dataset, 0, "kontext_images", v);
    ASSERT_EQ(references.size(), 3u);
    for (size_t i = 0; i < 3; ++i) {
      auto whole = data::decode_image(std::vector{scratch / "rgb.png", scratch / "small.png", scratch / "lossy.webp"}[i]);
      data::Size own{whole.size(0), whole.size(1)};
      auto cut = data::resize_and_crop(whole, data::target_size(o.subsets[0].size, own, ""));
      EXPECT_TRUE(at::equal(references[i], data::crop_of(dataset, 0, v).flip ? cut.flip({1}) : cut)) << v << " " << i;
    }
  }
  EXPECT_NE(data::crop_of(dataset, 0, 0).flip, data::crop_of(dataset, 0, 1).flip);
}

TEST_F(Pictures, WholeReferencePicturesAreNeitherScaledNorCut) {
  auto o = options("m.jsonl", R"({"image": "rgb.jpg", "prompt": "a", "kontext_images": ["rgb.png", "small.png"]})"
                              "\n");
  o.subsets[0].size = {.max_pixels = 600, .division = 16};
  o.subsets[0].augmentation = {.random_flip = true, .num_variants = 2};
  o.columns = {test::list_of("kontext_images")};
  o.columns[0].fit = Column::Fit::whole;
  Dataset dataset(o);
  for (int64_t v = 0; v < 2; ++v) {
    auto references = test::read_list(dataset, 0, "kontext_images", v);
    ASSERT_EQ(references.size(), 2u);
    for (size_t i = 0; i < 2; ++i) {
      auto whole = data::decode_image(scratch / std::vector<std::string>{"rgb.png", "small.png"}[i]);
      EXPECT_TRUE(at::equal(references[i], data::crop_of(dataset, 0, v).flip ? whole.flip({1}) : whole)) << v << " " << i;
      EXPECT_EQ(data::picture_crops(dataset, 0, o.columns[0], v)[i].size, (data::Size{whole.size(0), whole.size(1)}));
    }
  }
}

TEST_F(Pictures, ReferencePicturesInCsvAreAFileOrAListInJson) {
  auto with = [&](const std::string& cell) {
    auto o = options("m.csv", "image,prompt,kontext_images\nrgb.jpg,a," + cell + "\n");
    o.subsets[0].size.division = 8;
    o.columns = {test::list_of("kontext_images")};
    return o;
  };
  auto count = [&](const std::string& cell) { return test::read_list(Dataset(with(cell)), 0, "kontext_images").size(); };
  EXPECT_EQ(count(""), 0u);
  EXPECT_EQ(count("rgb.png"), 1u);
  EXPECT_EQ(count(R"("[""rgb.png"", ""lossy.webp""]")"), 2u);
  EXPECT_EQ(count("[]"), 0u);
  copy("rgb.png", "[1].png");
  EXPECT_EQ(count("[1].png"), 1u) << "a name that is no JSON";
  auto refused = [&](const std::string& cell) {
    auto o = with(cell);
    return error_of([&] { Dataset{o}; });
  };
  EXPECT_THAT(refused("gone.png"), AllOf(HasSubstr("row 0"), HasSubstr("gone.png does not exist")));
  EXPECT_THAT(refused(R"("[""rgb.png"", 1]")"), HasSubstr("must hold a file name or a list of them, and holds a number"));
  EXPECT_THAT(refused("cut.jpg"), HasSubstr("cannot be decoded"));
  auto o = with("small.png");
  o.subsets[0].size.division = 16;
  EXPECT_THAT(error_of([&] { Dataset{o}; }), HasSubstr("small.png"));
}

TEST_F(Pictures, CropsGoWithThePictureNotWithItsRow) {
  auto o = options("m.csv", "image,prompt\nrgb.jpg,a\n"), moved = options("n.csv", "image,prompt\nrgb.png,b\nrgb.jpg,a\n");
  for (auto* each : {&o, &moved}) {
    each->subsets[0].size = {.height = 32, .width = 32};
    each->subsets[0].augmentation = {.random_crop = true, .random_flip = true, .num_variants = 4};
  }
  for (int64_t v = 0; v < 4; ++v) EXPECT_TRUE(data::crop_of(Dataset(o), 0, v) == data::crop_of(Dataset(moved), 1, v));
}

TEST_F(Pictures, AbsolutePathsAreTakenAsTheyAre) {
  auto o = options("m.csv", "image,prompt\n" + (scratch / "rgb.png").string() + ",a\n");
  o.subsets[0].base_path = "/nowhere";
  EXPECT_THAT(Dataset(o).rows(), ElementsAre(0));
}

TEST_F(Pictures, AClassSetFollowsTheMetadata) {
  std::filesystem::create_directory(scratch / "class");
  copy("rgb.png", "class/c.png");
  auto o = options("m.csv", "image,prompt,loss_weight\nrgb.jpg,a,\nrgb.png,b, 0.25\n");
  o.subsets.push_back({(scratch / "class").string(), scratch.write("class/c.jsonl", R"({"image":"c.png","prompt":"a dog","loss_weight":2}
{"image":"c.png","prompt":"a fox","loss_weight":null})")});
  o.subsets[1].visits.of_class_set = true;
  Dataset dataset(o);
  EXPECT_THAT(dataset.rows(), ElementsAre(0, 1, 2, 3));
  EXPECT_EQ(dataset.row(2).prompt, "a dog");
  EXPECT_TRUE(at::equal(test::read_target(dataset, 2), test::read_target(dataset, 1)));
  std::vector<double> weights;
  for (auto row : dataset.rows()) {
    EXPECT_EQ(dataset.row(row).subset, row > 1 ? 1u : 0u);
    weights.push_back(dataset.row(row).loss_weight);
  }
  EXPECT_THAT(weights, ElementsAre(1, 0.25, 2, 1));
  EXPECT_EQ(dataset.origins().at(1).path, o.subsets[1].metadata_path);
  EXPECT_NE(dataset.origins()[1].hash, dataset.origins()[0].hash);
}

TEST_F(Pictures, WhatIsWrongWithAClassSetSaysSo) {
  auto o = options("m.csv", "image,prompt\nrgb.jpg,a\nrgb.png,b\n");
  o.subsets.push_back({scratch.path(), scratch.write("c.csv", "image,prompt\nrgb.png,a\ngone.png,b\n")});
  o.subsets[1].visits.of_class_set = true;
  EXPECT_THAT(error_of([&] { Dataset{o}; }),
              AllOf(HasSubstr("c.csv: 1 of 4 samples"), HasSubstr("row 1 of the class set"), HasSubstr("gone.png")));
  o.skip_bad_samples = true;
  EXPECT_THAT(Dataset(o).rows(), ElementsAre(0, 1, 2));
  o.subsets[0].metadata_path = scratch.write("n.csv", "image,prompt\ngone.png,a\n");
  EXPECT_THAT(error_of([&] { Dataset{o}; }), HasSubstr("none of the 1 samples can be used"));
}

TEST_F(Pictures, LossWeightsAreNumbersOfAtLeastZero) {
  for (const char* weight : {"-1", "much", "inf", "nan", "1e999", "1 2"})
    EXPECT_THAT(refusal("m.csv", std::string("image,prompt,loss_weight\nrgb.png,a,") + weight + "\n"), HasSubstr("the loss_weight is"))
        << weight;
  EXPECT_THAT(refusal("m.json", R"([{"image":"rgb.png","prompt":"a","loss_weight":[1]}])"), HasSubstr("the loss_weight is"));
}

TEST_F(Pictures, SubsetsKeepTheirSizesCaptionsAndWeights) {
  auto o = options("m.csv", "image,prompt,loss_weight\nrgb.jpg,a,\nrgb.png,b,3\n");
  o.subsets[0].size = {.height = 16, .width = 32};
  o.subsets.push_back(
      {scratch.path(), scratch.write("n.jsonl", R"({"image":"rgb.png","prompt":[{"text":"one\ntwo","weight":3},"three"]})")});
  o.subsets[1].loss_weight = 0.5;
  o.subsets[1].size.buckets = data::BucketRule{.resolution = {32, 32}, .least = 16, .most = 64, .step = 16};
  o.subsets[1].visits.captions = {.prefix = "my", .wildcards = true};
  o.subsets[1].augmentation = {.random_flip = true, .num_variants = 2};
  Dataset dataset(o);
  EXPECT_EQ(dataset.extent(1), (Extent{1, 16, 32}));
  EXPECT_EQ(dataset.extent(2), (Extent{1, 16, 16})) << "of 37 by 52 pixels, at most 1024";
  EXPECT_EQ(dataset.row(1).prompt, "b");
  EXPECT_EQ(dataset.row(2).prompt, "my one");
  const auto& captions = dataset.row(2).captions;
  ASSERT_EQ(captions.size(), 3u);
  EXPECT_EQ(captions[1].text, "two");
  EXPECT_EQ(captions[1].weight, 1.5);
  EXPECT_EQ(captions[2].weight, 1);
  EXPECT_EQ(dataset.row(1).loss_weight, 3);
  EXPECT_EQ(dataset.row(2).loss_weight, 0.5);
  EXPECT_EQ(data::num_variants(dataset), 2);
  EXPECT_TRUE(data::crop_of(dataset, 1, 0) == data::crop_of(dataset, 1, 1));
  EXPECT_NE(data::crop_of(dataset, 2, 0).flip, data::crop_of(dataset, 2, 1).flip);
  EXPECT_THAT(dataset.name_of(2), AllOf(HasSubstr("row 0 of"), HasSubstr("n.jsonl")));
}

TEST_F(Pictures, CaptionsOfAListAreTextsWithWeightsAboveZero) {
  for (const auto* caption : {"[]", "{}", R"([{"weight":1}])", R"([{"text":"a","weight":0}])", R"([{"text":"a","weight":"b"}])"})
    EXPECT_THAT(refusal("m.jsonl", std::string(R"({"image":"rgb.png","prompt":)") + caption + "}"), HasSubstr("1 of 1 samples")) << caption;
}

TEST_F(Pictures, NamesThatAnotherSystemWroteAreFound) {
  const std::string apart = "cafe\xCC\x81.jpg", one = "caf\xC3\xA9.jpg";
  std::filesystem::create_directory(scratch / "sub");
  copy("rgb.jpg", apart);
  copy("rgb.png", "sub/p0.png");
  auto o = options("m.csv", "image,prompt,mask\n" + one + ",a,\nsub\\p0.png,b,.\\sub\\p0.png\n.\\rgb.jpg,c,\n");
  o.columns = {test::beside("mask")};
  Dataset dataset(o);
  EXPECT_THAT(dataset.rows(), ElementsAre(0, 1, 2));
  EXPECT_TRUE(std::filesystem::equivalent(dataset.row(0).file, scratch / apart));
  EXPECT_TRUE(std::filesystem::equivalent(dataset.row(1).further.at("mask"), scratch / "sub/p0.png"));
}

TEST_F(Pictures, RowsWithoutACaptionHaveTheClassTokens) {
  auto o = options("m.jsonl", R"({"image": "rgb.jpg"}
{"image": "rgb.png", "prompt": null}
{"image": "rgb.png", "prompt": " "}
{"image": "rgb.png", "caption": "a tree"}
)");
  EXPECT_THAT(error_of([&] { Dataset{options("n.csv", "image\nrgb.jpg\n")}; }),
              AllOf(HasSubstr("no column named prompt"), HasSubstr("class_tokens")));
  o.subsets[0].caption_files.class_tokens = "a dog";
  o.subsets[0].visits.trigger_word = "sks";
  Dataset dataset(o);
  for (int row : {0, 1, 2}) EXPECT_EQ(dataset.row(row).prompt, "sks a dog");
  EXPECT_EQ(dataset.row(3).prompt, "sks a tree");
}
