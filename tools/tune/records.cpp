#include "tune/records.h"

#include <fcntl.h>
#include <signal.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <filesystem>

#include "fmt/format.h"
#include "layers/lines.h"
#include "layers/spec.h"
#include "nlohmann/json.hpp"

namespace kiln::tools {
namespace {

using nlohmann::ordered_json;

std::string print(const Record &record) {
    ordered_json json = {{"problem", record.problem},
                         {"target", record.target},
                         {"algorithm", record.decision.algorithm},
                         {"revision", record.revision},
                         {"schedule", record.decision.schedule},
                         {"verdict", record.verdict}};
    if (record.ok()) {
        json["ms"] = record.ms;
        json["spread"] = record.spread;
        json["ratio"] = record.ratio;
        json["noise"] = record.noise;
        json["rounds"] = record.rounds;
    }
    if (!record.sizes.empty()) {
        ordered_json &sizes = json["sizes"] = ordered_json::array();
        for (const Record::Size &size : record.sizes) {
            ordered_json &one = sizes.emplace_back(ordered_json{{"problem", size.problem}});
            if (record.ok()) {
                one["ms"] = size.ms;
                one["ratio"] = size.ratio;
            }
        }
    }
    json["compile_seconds"] = record.compile_seconds;
    json["timing_seconds"] = record.timing_seconds;
    json["caches"] = record.cold ? "cold" : "warm";
    if (record.final) {
        json["final"] = true;
    }
    json["machine"] = record.machine;
    json["host"] = record.host;
    json["calibration"] = record.calibration;
    json["load"] = record.load;
    json["halide"] = record.halide;
    json["kiln"] = record.kiln;
    json["seed"] = record.seed;
    return json.dump(-1, ' ', false, ordered_json::error_handler_t::replace);
}

Record parse(const std::string &line) {
    const ordered_json json = ordered_json::parse(line);
    Record record;
    record.problem = json.at("problem");
    record.target = json.at("target");
    record.decision = current_names({json.at("algorithm"), json.at("schedule")});
    record.revision = json.at("revision");
    record.verdict = json.at("verdict");
    if (record.ok()) {
        record.ms = json.at("ms");
        record.spread = json.at("spread");
        record.ratio = json.at("ratio");
        record.noise = json.value("noise", 0.0);
        record.rounds = json.value("rounds", 0);
    }
    for (const ordered_json &size : json.value("sizes", ordered_json::array())) {
        record.sizes.push_back({size.at("problem"), size.value("ms", 0.0), size.value("ratio", 0.0)});
    }
    record.compile_seconds = json.value("compile_seconds", 0.0);
    record.timing_seconds = json.value("timing_seconds", 0.0);
    record.cold = json.value("caches", "warm") == "cold";
    record.final = json.value("final", false);
    record.machine = json.at("machine");
    record.host = json.value("host", "");
    record.calibration = json.value("calibration", 0.0);
    record.load = json.value("load", 0.0);
    record.halide = json.value("halide", "");
    record.kiln = json.value("kiln", "");
    record.seed = json.value("seed", int64_t{0});
    return record;
}

// What to do about it where the disk is full.
std::string advice(int error) {
    return error == ENOSPC || error == EDQUOT || error == EFBIG
               ? "; what was recorded before is whole: make room and go on with --resume"
               : "";
}

// Writes all of it; an error's number, or 0.
int write_all(int file, const std::string &text) {
    for (size_t at = 0; at < text.size();) {
        const ssize_t written = write(file, text.data() + at, text.size() - at);
        if (written < 0 && errno != EINTR) {
            return errno;
        }
        at += std::max<ssize_t>(written, 0);
    }
    return 0;
}

int sync_all(int file) {
    // A pipe or a device cannot be synchronised.
    return fsync(file) == 0 || errno == EINVAL || errno == EROFS || errno == ENOTSUP ? 0 : errno;
}

}  // namespace

std::vector<std::string> Record::size_texts() const {
    std::vector<std::string> texts;
    for (const Size &size : sizes) {
        texts.push_back(size.problem);
    }
    return texts;
}

RecordFile read_records(const std::string &path) {
    RecordFile result;
    std::error_code missing;
    if (!std::filesystem::is_regular_file(path, missing)) {
        return result;
    }
    for (const auto &[number, line] : read_lines("timings file", path)) {
        try {
            result.records.push_back(parse(line));
        } catch (const nlohmann::json::exception &error) {
            result.damaged.push_back(fmt::format("{}:{}: not a record: {}", path, number, error.what()));
        }
    }
    return result;
}

RecordWriter::RecordWriter(const std::string &path) : path_(path) {
    signal(SIGXFSZ, SIG_IGN);  // a limit on files' sizes is then an error like a full disk
    file_ = open(path.c_str(), O_RDWR | O_APPEND | O_CREAT | O_CLOEXEC, 0666);
    if (file_ < 0) {
        throw Error(fmt::format("timings file {} cannot be written: {}", path, std::strerror(errno)));
    }
    // A line that a kill cut short stays alone.
    const off_t size = lseek(file_, 0, SEEK_END);
    char last = '\n';
    if (size > 0 && pread(file_, &last, 1, size - 1) == 1 && last != '\n') {
        write_all(file_, "\n");
    }
}

RecordWriter::~RecordWriter() {
    close(file_);
}

void RecordWriter::append(const Record &record) {
    flock(file_, LOCK_EX);  // several runs may share a file
    struct stat before = {};
    fstat(file_, &before);
    const int error = write_all(file_, print(record) + "\n");
    if (error != 0 && S_ISREG(before.st_mode)) {
        [[maybe_unused]] const int cut = ftruncate(file_, before.st_size);
    }
    flock(file_, LOCK_UN);
    synced_ = false;
    fail_on(error);
}

void RecordWriter::sync() {
    if (!synced_) {
        fail_on(sync_all(file_));
    }
    synced_ = true;
}

void RecordWriter::fail_on(int error) const {
    if (error != 0) {
        throw Error(fmt::format("timings file {} cannot be written: {}{}", path_, std::strerror(error), advice(error)),
                    StatusCode::failed);
    }
}

void write_whole(const std::string &path, const std::string &text) {
    std::error_code ignored;
    const bool direct = std::filesystem::exists(path, ignored) && !std::filesystem::is_regular_file(path, ignored);
    const std::string part = direct ? path : path + ".part";
    const int file = open(part.c_str(), O_WRONLY | O_CREAT | O_CLOEXEC | (direct ? 0 : O_TRUNC), 0666);
    int error = file < 0 ? errno : write_all(file, text);
    error = error == 0 ? sync_all(file) : error;
    if (file >= 0 && close(file) != 0 && error == 0) {
        error = errno;
    }
    if (error == 0 && !direct && rename(part.c_str(), path.c_str()) != 0) {
        error = errno;
    }
    if (error != 0) {
        if (!direct) {
            unlink(part.c_str());
        }
        throw Error(fmt::format("{} cannot be written: {}{}", path, std::strerror(error), advice(error)),
                    StatusCode::failed);
    }
}

}  // namespace kiln::tools
