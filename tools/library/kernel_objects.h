// The kernels of a library and their objects, with what stands in for a kernel that does not compile as it was decided.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "library/jobs.h"
#include "library/library.h"

namespace kiln::tools {

// The file of the object that defines `symbol`, in a folder: of long symbols a shorter name.
std::string object_file(const std::string &folder, const std::string &symbol);

class KernelObjects {
  public:
    // Objects go to `folder`; warnings, and which kernel took longest, to `result`.
    KernelObjects(const LibraryRequest &request, const std::string &folder, CompiledLibrary &result)
        : request_(request), folder_(folder), result_(result) {}

    // The place of the kernel of a decision, which is new or which another layer needs too.
    size_t add(const std::string &layer, const Problem &problem, const Decision &decision, const TargetModel &target,
               const std::optional<SizeChoice> &size);

    // Compiles all of them, each in a child process. `on_done` hears of each once its object is there or nothing is
    // left to try.
    void compile(const std::function<void(size_t place, const JobResult &result)> &on_done);

    size_t size() const { return entries_.size(); }
    std::shared_ptr<const LibraryKernel> operator[](size_t place) const { return entries_[place].kernel; }

  private:
    struct Entry {
        std::shared_ptr<LibraryKernel> kernel;
        std::vector<std::string> layers;  // that need it
        bool plain_registers = false;     // whether it is compiled with them (KernelRequest)
    };

    void compile(const std::vector<size_t> &places,
                 const std::function<void(size_t place, const JobResult &result)> &on_done);
    Job job(const Entry &entry) const;
    bool try_otherwise(Entry &entry, const JobResult &failure);
    bool take_fallback(Entry &entry, const std::string &why);
    void finish(Entry &entry, const JobResult &result);

    const LibraryRequest &request_;
    const std::string folder_;
    CompiledLibrary &result_;
    std::vector<Entry> entries_;
};

}  // namespace kiln::tools
