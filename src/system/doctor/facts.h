// What the doctor has found out about a machine; the checks only look at this.
#pragma once
#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "system/doctor/machine.h"

namespace strata::doctor {

using Version = std::vector<int>;  // {12, 4, 1}; empty: unknown
std::string to_text(const Version& v);

// One file of a library.
struct Copy {
  std::string path, real;  // as it is found; without links
  std::string found_by;    // "LD_LIBRARY_PATH", "the loader's cache", "a Python package", …
  Version version;         // by the name of the file, or the package that it is in
};

struct LibraryFacts {
  std::string name;          // "cuDNN"
  std::vector<Copy> copies;  // in the order in which they are looked for; the first is the one that is used
  bool opened = false;       // it was tried
  Version version;           // of the first copy, by asking it; or by its name
  std::string error;         // why the first copy cannot be used
  std::string variable;      // that names the file, "STRATA_CUDNN"; empty: it is not set
  const Copy* used() const { return copies.empty() ? nullptr : &copies[0]; }
};

struct PciGpu {
  std::string address;                // "0000:01:00.0"
  int link_width = 0, max_width = 0;  // lanes; 0: unknown
  bool gone = false;                  // it does not answer any more
};

struct GpuFacts {
  std::string name, bus_id;
  int major = 0, minor = 0, compute_mode = 0;
  uint64_t memory = 0, memory_free = 0;  // memory_free 0: unknown
  int64_t ecc_errors = 0;                // not corrected, since the driver was loaded
  bool mig = false;
  std::string capability() const;
};

struct DriverFacts {
  bool module_loaded = false, nouveau_loaded = false, module_on_disk = false, secure_boot = false, open_module = false;
  Version module_version;
  std::string release;               // of the kernel
  std::map<std::string, int> nodes;  // errno of opening /dev/nvidia…, of those that there should be
  LibraryFacts library;              // libcuda
  Version cuda;                      // the newest CUDA that it supports
  int init = 0;                      // what cuInit returned
  std::string init_name;             // "CUDA_ERROR_NO_DEVICE"
  int count = -1;                    // GPUs that it shows; -1: unknown
};

struct Toolkit {
  std::string folder;
  Version version;
  std::string found_by;  // "PATH", "CUDA_HOME", "/usr/local"
};

struct Package {  // of Python
  std::string name, folder;
  Version version;
  std::string text;  // of the version: "2.5.1+cu124"
};

struct TorchFacts {
  bool found = false, asked = false;
  std::string folder, version, cuda;  // cuda: "12.4"; empty: built without
  bool hip = false, has_cuda_library = false;
  std::string python;                               // the program that was asked
  std::string failure;                              // of asking
  bool available = false;                           // torch.cuda.is_available()
  std::string reason;                               // what torch.cuda.init() says
  std::vector<std::string> architectures;           // "sm_90"
  std::map<std::string, std::string> requirements;  // of its wheel: "nvidia-cudnn-cu12" -> "9.1.0.70"
};

// What this build of Strata has.
struct BuildFacts {
  bool kernels = true;
  std::vector<int> machine_code;  // 80, 90: compute capabilities that have machine code
  std::vector<int> exact;         // 90 of "90a": machine code for this capability alone
  int ptx = 75;                   // the oldest capability of its PTX: see cmake/CompileKernel.cmake
};

struct ContainerFacts {
  std::string kind;  // "docker", "podman", "kubernetes", …; empty: none
  bool wsl = false, nixos = false, colab = false;
};

struct Facts {
  const Machine* machine = nullptr;
  DriverFacts driver;
  std::vector<PciGpu> pci;
  std::vector<GpuFacts> gpus;
  std::vector<std::string> xids;  // lines of the kernel's log
  std::vector<LibraryFacts> libraries;
  std::vector<Toolkit> toolkits;
  std::string nvcc;  // on PATH
  std::vector<std::string> package_folders;
  std::vector<Package> packages;
  TorchFacts torch;
  BuildFacts build;
  ContainerFacts container;
  bool mac = false;
  std::vector<std::string> dead;  // devices of this process that have failed
  bool gpu_expected = false;      // something tells that there should be a GPU

  const LibraryFacts* library(const std::string& name) const;
  const Package* package(const std::string& name) const;
  const Machine& m() const { return *machine; }
};

struct GatherOptions {
  bool open_driver = true, open_libraries = true;  // in child processes
  bool torch = false;                              // ask the interpreter
  double seconds = 20;                             // for each child
  std::vector<std::string> package_folders;        // of Python; empty: those of the interpreter on PATH
  BuildFacts build;
};

Facts gather(const Machine& machine, const GatherOptions& options);
BuildFacts this_build();

// The parts of gather().
void gather_driver(Facts& f, const GatherOptions& options);
void gather_libraries(Facts& f, const GatherOptions& options);
void gather_toolkits(Facts& f);
void gather_python(Facts& f, const GatherOptions& options);
void gather_torch(Facts& f, const GatherOptions& options);

// Folders in which libraries are looked for, in order, and why: "LD_LIBRARY_PATH", …
struct SearchFolder {
  std::string path, why;
};
std::vector<SearchFolder> search_folders(const Facts& f);
// Whether the loader's cache has this file; true if there is no cache to look at.
bool in_loader_cache(const Machine& m, const std::string& path);
// All copies of a library: files whose name begins so and goes on with a number, or ends there.
std::vector<Copy> copies_of(const Facts& f, const std::vector<std::string>& names);
std::string program_on_path(const Machine& m, const std::string& name);  // "" if there is none

}  // namespace strata::doctor
