// The timings file: what was measured, append-only JSON Lines, a record a line. Files merge by concatenation.
#pragma once

#include <string>
#include <vector>

#include "decision.h"

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
    double noise = 0;     // the standard error of that ratio
    int rounds = 0;
    // Of a problem with open sizes, what it was timed at; the numbers above are geometric means over these.
    struct Size {
        std::string problem;
        double ms = 0, ratio = 0;
    };
    std::vector<Size> sizes;
    double compile_seconds = 0;
    double timing_seconds = 0;         // building its program, if it was the first of it, checking and timing it
    bool cold = false;                 // whether the weights were in no cache
    bool final = false;                // whether it is of the last comparison with the default
    std::string machine;               // what it ran on: processor, features, runner
    std::string host;                  // and which of those
    double calibration = 0, load = 0;  // as Machine's
    std::string halide, kiln;
    int64_t seed = 0;

    bool ok() const { return verdict == "ok"; }
    std::vector<std::string> size_texts() const;
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

    // Throws Error where the record cannot be written; the file then holds whole lines only. It outlives this process
    // when this returns, and the machine's end after sync().
    void append(const Record &record);
    void sync();

  private:
    void fail_on(int error) const;

    std::string path_;
    int file_ = -1;
    bool synced_ = true;
};

// Writes a file as a whole or not at all, unless it is no regular one. Throws Error.
void write_whole(const std::string &path, const std::string &text);

}  // namespace kiln::tools
