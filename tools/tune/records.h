// The timings file: what was measured, append-only JSON Lines, a record a line. Files merge by concatenation.
#pragma once

#include <string>
#include <vector>

#include "kernel.h"

namespace kiln::tools {

// What became of one candidate.
struct Record {
    std::string problem, target;
    Decision decision;
    int revision = 0;     // of the algorithm
    std::string verdict;  // "ok", or "failed: why"; then there are no times
    double ms = 0;        // the median of the rounds' times
    double spread = 0;    // (slowest - fastest round) / median
    double ratio = 0;     // of its time to the default's, which was measured in alternation with it
    double compile_seconds = 0;
    bool cold = false;    // whether the weights were in no cache
    bool final = false;   // whether it is of the last comparison with the default
    std::string machine;  // what it ran on: processor, features, runner
    std::string halide, kiln;
    int64_t seed = 0;

    bool ok() const { return verdict == "ok"; }
};

struct RecordFile {
    std::vector<Record> records;
    std::vector<std::string> damaged;  // "timings.jsonl:7: why": lines that are none
};

// A file that is not there, or is a device or a pipe, holds nothing. Throws Error where it cannot be read.
RecordFile read_records(const std::string &path);

class RecordWriter {
  public:
    // Throws Error where the file cannot be written.
    explicit RecordWriter(const std::string &path);
    ~RecordWriter();
    RecordWriter(const RecordWriter &) = delete;
    RecordWriter &operator=(const RecordWriter &) = delete;

    // The record is on the disk when this returns. Throws Error where it is not; the file then holds whole lines only.
    void append(const Record &record);

  private:
    std::string path_;
    int file_ = -1;
};

// Writes a file as a whole or not at all, unless it is no regular one. Throws Error.
void write_whole(const std::string &path, const std::string &text);

}  // namespace kiln::tools
