// A folder for the files of one test, since tests run beside each other, those of other checkouts too.
#pragma once

#include <gtest/gtest.h>
#include <stdlib.h>

#include <filesystem>
#include <string>

namespace kiln {

// Gone with all that is in it at its end.
class OwnFolder {
  public:
    OwnFolder() {
        path_ = testing::TempDir() + "/kiln_test.XXXXXX";
        EXPECT_NE(mkdtemp(path_.data()), nullptr) << path_;
    }
    ~OwnFolder() {
        std::error_code error;
        std::filesystem::remove_all(path_, error);
    }
    OwnFolder(const OwnFolder &) = delete;
    OwnFolder &operator=(const OwnFolder &) = delete;

    std::string file(const std::string &name) const { return path_ + "/" + name; }

  private:
    std::string path_;
};

}  // namespace kiln
