// Datasets at addresses of their own: signatures as botocore makes them, and what is fetched when from servers on loopback.
#include "hub/addressed.h"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <sys/file.h>

#include <cstdlib>
#include <set>

#include "hub/address_store.h"
#include "hub/aws.h"
#include "hub/s3_listing.h"
#include "io/files.h"
#include "tests/hub/fake_hub.h"
#include "tests/scratch.h"

using namespace burnish;
using namespace burnish::test;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
namespace fs = std::filesystem;

namespace {

/// Sets variables of the environment for as long as it lives.
class Variables {
 public:
  explicit Variables(const std::map<std::string, std::string>& given) : given_(given) {
    for (const auto& [name, value] : given_) setenv(name.c_str(), value.c_str(), 1);
  }
  ~Variables() {
    for (const auto& [name, value] : given_) unsetenv(name.c_str());
  }
  Variables(const Variables&) = delete;
  Variables& operator=(const Variables&) = delete;

 private:
  std::map<std::string, std::string> given_;
};

/// A bucket "photos", or files of a server, by their keys or paths.
class Addressed : public testing::Test {
 protected:
  Addressed() : server_([this](const std::string& request) { return answer(request); }) {}

  std::string answer(const std::string& request) const {
    auto target = request.substr(4, request.find(' ', 4) - 4);
    if (target.starts_with("/photos/?")) return http(200, listed(target.find("prefix=cats") != target.npos ? "cats" : "", target));
    const auto path = target.substr(0, target.find('?'));
    const auto key = path.starts_with("/photos/") ? path.substr(8) : path.substr(1);
    if (!files.contains(key)) return http(404, "<Error><Code>NoSuchKey</Code><Message>gone</Message></Error>");
    const auto& content = files.at(key);
    if (breaks && asked_from(request) < 0) return http(200, content.substr(0, content.size() / 2), "ETag: \"v\"\r\n", std::ssize(content));
    return asked_from(request) < 0 ? http(200, content) : rest(content, asked_from(request));
  }
  /// Lists two objects a page.
  std::string listed(const std::string& prefix, const std::string& target) const {
    std::string xml = "<?xml version=\"1.0\"?><ListBucketResult><Name>photos</Name>";
    const auto token = target.find("continuation-token=");
    const auto begin = token == target.npos ? 0 : std::stoi(target.substr(token + 19));
    int i = 0;
    for (const auto& [key, content] : files) {
      if (!key.starts_with(prefix) || i++ < begin) continue;
      if (i > begin + 2) {
        xml += "<IsTruncated>true</IsTruncated><NextContinuationToken>" + std::to_string(begin + 2) + "</NextContinuationToken>";
        break;
      }
      xml += "<Contents><Key>" + key + "</Key><ETag>&quot;" + io::sha256(content).substr(0, 32) + "&quot;</ETag><Size>" +
             std::to_string(content.size()) + "</Size></Contents>";
    }
    return xml + "</ListBucketResult>";
  }
  fs::path fetched(const std::string& address) {
    return hub::fetch_addressed(*hub::addressed_dataset(address), settings_, {.folder = folder_ / "datasets", .most_bytes = most_bytes_});
  }
  /// How many requests asked for a file.
  int64_t num_asked(const std::string& path) const {
    int64_t count = 0;
    for (const auto& request : server_.requests()) count += request.starts_with("GET " + path);
    return count;
  }
  std::map<std::string, std::string> of_bucket() const {
    return {{"AWS_ENDPOINT_URL", server_.address()}, {"AWS_ACCESS_KEY_ID", "AKIDEXAMPLE"}, {"AWS_SECRET_ACCESS_KEY", "secret"}};
  }

  std::map<std::string, std::string> files;
  bool breaks = false;
  int64_t most_bytes_ = -1;
  Scratch folder_;
  hub::Settings settings_;
  ScriptedServer server_;
};

}  // namespace

TEST(SignedAddress, IsWhatBotocoreMakes) {
  // S3SigV4QueryAuth of botocore 1.43.11 at this time, for a week.
  hub::AwsSettings s{.key = "AKIDEXAMPLE", .secret = "wJalrXUtnFEMI/K7MDENG+bPxRfiCYEXAMPLEKEY", .region = "eu-central-1"};
  const std::string time = "20261130T123456Z";
  const auto of_aws = hub::signed_address(s, hub::s3_url(s, "photos", "cats/a b+c.png"), time);
  EXPECT_THAT(of_aws, testing::StartsWith("https://photos.s3.eu-central-1.amazonaws.com/cats/a%20b%2Bc.png?X-Amz-Algorithm="));
  EXPECT_THAT(of_aws, HasSubstr("&X-Amz-Signature=0978be91b0294acbcc0ca1a911a934cb082b7fe96b742cbdd640cd37cfd5c6c5"));
  s.session = "token/+=";
  s.endpoint = "http://127.0.0.1:9000";
  auto list = hub::s3_url(s, "photos", "");
  list.query = {{"list-type", "2"}, {"prefix", "cats/"}};
  EXPECT_THAT(hub::signed_address(s, list, time), testing::StartsWith("http://127.0.0.1:9000/photos/?X-Amz-Algorithm="));
  EXPECT_THAT(hub::signed_address(s, list, time),
              testing::EndsWith("&X-Amz-Signature=657088e1763ed057d70d1f315f2565973932f5ffd48c3c082bff319e502b285b"));
  EXPECT_EQ(hub::signed_address({}, hub::s3_url({}, "my.photos", "a.png")), "https://s3.us-east-1.amazonaws.com/my.photos/a.png")
      << "without keys nothing is signed";
}

TEST(S3Listing, IsReadWithWhatXmlAndAddressesEncode) {
  const auto page = hub::read_s3_page(
      "<ListBucketResult xmlns=\"x\"><IsTruncated>true</IsTruncated><NextContinuationToken>1&amp;2</NextContinuationToken><Contents>"
      "<Key>a+b%2Fc%C3%A9.png</Key><Size>12</Size><ETag>&quot;abc-2&quot;</ETag></Contents></ListBucketResult>");
  ASSERT_EQ(page.objects.size(), 1u);
  EXPECT_EQ(page.objects[0].key, "a b/c\xc3\xa9.png");
  EXPECT_EQ(page.objects[0].size, 12);
  EXPECT_EQ(page.objects[0].tag, "abc-2");
  EXPECT_EQ(page.next, "1&2");
  EXPECT_THAT(error_of([] { hub::read_s3_page("<html>"); }, Exit::data), HasSubstr("is no list of S3"));
}

TEST(AddressedDataset, IsToldByItsAddress) {
  for (const char* other : {"photos", "hf://datasets/a/b", "/data/x.tar", ""}) EXPECT_FALSE(hub::addressed_dataset(other)) << other;
  EXPECT_TRUE(hub::addressed_dataset("s3://photos")->is_prefix);
  EXPECT_TRUE(hub::addressed_dataset("s3://photos/cats/")->is_prefix);
  EXPECT_TRUE(hub::addressed_dataset("https://host/list.txt?x=1")->is_list);
  EXPECT_THAT(hub::addressed_dataset("https://host/{08..10}.tar")->files,
              ElementsAre("https://host/08.tar", "https://host/09.tar", "https://host/10.tar"));
  EXPECT_EQ(hub::addressed_dataset("s3://b/{0..1}.tar")->files.size(), 2u);
  for (const char* wrong : {"https://host", "https://host/photos/", "s3://", "https://host.tar", "https://host/{2..1}.tar",
                            "https://host/{0..1.tar", "https://host/0..1}.tar", "https://host/{0,1}.tar", "s3://b/{0..1}/{0..1}.tar"})
    EXPECT_NE(error_of([&] { hub::addressed_dataset(wrong); }, Exit::config), "") << wrong;
}

TEST_F(Addressed, ABucketIsFetchedOnceAndWhatChangedAgain) {
  files = {{"cats/a.png", "first"}, {"cats/a.txt", "a cat"}, {"cats/more/b.png", std::string(3000, 'b')}, {"cats2/c.png", "c"}};
  const Variables variables(of_bucket());
  const auto there = fetched("s3://photos/cats");
  EXPECT_EQ(io::read_text(there / "a.png"), "first");
  EXPECT_EQ(io::read_text(there / "more/b.png"), std::string(3000, 'b'));
  EXPECT_FALSE(io::is_there(there / "c.png"));
  for (const auto& request : server_.requests()) EXPECT_THAT(request, HasSubstr("X-Amz-Signature=")) << request;
  EXPECT_EQ(num_asked("/photos/?"), 2) << "two objects are a page";
  EXPECT_EQ(fetched("s3://photos/cats"), there);
  EXPECT_EQ(num_asked("/photos/cats/a.png"), 1);
  files["cats/a.png"] = "other";  // as long as before: the ETag says it
  files.erase("cats/a.txt");
  fetched("s3://photos/cats");
  EXPECT_EQ(io::read_text(there / "a.png"), "other");
  EXPECT_FALSE(io::is_there(there / "a.txt"));
  EXPECT_EQ(num_asked("/photos/cats/more/b.png"), 1);
  settings_.offline = "HF_HUB_OFFLINE";
  const auto before = server_.requests().size();
  EXPECT_EQ(fetched("s3://photos/cats"), there);
  EXPECT_EQ(server_.requests().size(), before);
}

TEST_F(Addressed, ALineThatBreaksLosesNothing) {
  files = {{"one.tar", std::string(40000, 'x') + std::string(40000, 'y')}};
  breaks = true;
  EXPECT_EQ(io::read_text(fetched(server_.address() + "/one.tar")), files.at("one.tar"));
  const auto requests = server_.requests();
  ASSERT_EQ(requests.size(), 2u);
  EXPECT_EQ(asked_from(requests[1]), 40000);
}

TEST_F(Addressed, AListNamesFilesAndCaptions) {
  files = {{"set/list.txt", "# photos\na.png\ta red cat\n" + server_.address() + "/far/b.png?size=1 two words\nshard-{1..2}.tar\n\n"},
           {"set/a.png", "a"},
           {"far/b.png", "b"},
           {"set/shard-1.tar", "1"},
           {"set/shard-2.tar", "2"}};
  const auto there = fetched(server_.address() + "/set/list.txt");
  std::map<std::string, std::string> found;
  for (const auto& entry : fs::recursive_directory_iterator(there)) {
    if (entry.is_regular_file()) found[entry.path().filename().string()] = io::read_text(entry.path());
  }
  EXPECT_EQ(found.size(), 6u);
  EXPECT_EQ(found["a.txt"], "a red cat");
  EXPECT_EQ(found["shard-2.tar"], "2");
  for (const auto& [name, content] : found) {
    if (!name.starts_with("b-")) continue;
    EXPECT_EQ(content, name.ends_with(".png") ? "b" : "two words") << name;
  }
  files["set/list.txt"] = "a.png\ta blue cat\n";
  fetched(server_.address() + "/set/list.txt");
  EXPECT_EQ(num_asked("/set/a.png"), 1);
  std::set<std::string> left;
  for (const auto& entry : fs::recursive_directory_iterator(there)) {
    if (entry.is_regular_file()) left.insert(entry.path().filename().string());
  }
  EXPECT_THAT(left, ElementsAre("a.png", "a.txt")) << "what the list names no more is deleted";
  files["set/list.txt"] = "../../x\n";
  EXPECT_THAT(error_of([&] { fetched(server_.address() + "/set/list.txt"); }, Exit::data), HasSubstr("an address of a file was expected"));
}

TEST_F(Addressed, WhatIsMissingIsNamedWithTheReason) {
  files = {{"00.tar", "0"}};
  EXPECT_THAT(error_of([&] { fetched(server_.address() + "/{00..01}.tar"); }, Exit::data), HasSubstr("01.tar' of"));
  const Variables variables(of_bucket());
  files = {{"cats/a.png", "a"}};
  EXPECT_THAT(error_of([&] { fetched("s3://photos/dogs/x"); }, Exit::data), HasSubstr("holds no objects"));
  EXPECT_THAT(error_of([&] { fetched("s3://other/{0..1}.tar"); }, Exit::data), HasSubstr("NoSuchKey: gone"));
  const Variables half(std::map<std::string, std::string>{{"AWS_SECRET_ACCESS_KEY", ""}});
  EXPECT_THAT(error_of([&] { fetched("s3://photos/cats"); }, Exit::config), HasSubstr("one is set"));
}

TEST_F(Addressed, RoomIsMadeByWhatWasNotUsedTheLongest) {
  const Variables variables(of_bucket());
  files = {{"cats/a.bin", std::string(6000, 'a')}};
  auto plant = [&](const std::string& name, int hours) {
    const auto folder = folder_ / "datasets" / name;
    fs::create_directories(folder);
    io::write_text_atomic(folder / "used", "");
    io::write_text_atomic(folder / "old.bin", std::string(6000, 'o'));
    fs::last_write_time(folder / "used", fs::file_time_type::clock::now() - std::chrono::hours(hours));
    return folder;
  };
  const auto older = plant("older", 3), newer = plant("newer", 2), held = plant("held", 4);
  const auto descriptor = open((held / "used").c_str(), O_RDONLY);
  ASSERT_EQ(flock(descriptor, LOCK_SH), 0);
  most_bytes_ = 20000;
  EXPECT_EQ(io::read_text(fetched("s3://photos/cats") / "a.bin").size(), 6000u);
  EXPECT_TRUE(io::is_there(held)) << "another process uses it";
  EXPECT_FALSE(io::is_there(older));
  EXPECT_TRUE(io::is_there(newer));
  close(descriptor);
  most_bytes_ = 5000;
  EXPECT_THAT(error_of([&] { fetched("s3://photos/cats"); }, Exit::data), HasSubstr("BURNISH_DATASETS_SIZE leaves"));
}
