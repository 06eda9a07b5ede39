// Checks of toolkits and of NVIDIA's libraries.
#include <fmt/core.h>

#include <algorithm>

#include "system/doctor/check.h"

namespace strata::doctor {
namespace {

struct Oldest {
  const char* name;
  Version version;
};
const std::vector<Oldest>& oldest() {  // as src/cuda/libs/libraries.cpp
  static const auto* list =
    new std::vector<Oldest>{{"NVRTC", {12, 0}}, {"cuBLASLt", {12, 0}}, {"cuDNN", {9, 0}}, {"NCCL", {2, 18}}};
  return *list;
}

// Strata opens these; the others matter for other programs only.
bool is_used(const LibraryFacts& l) {
  return std::any_of(oldest().begin(), oldest().end(), [&](const Oldest& o) { return l.name == o.name; });
}

std::string where(const LibraryFacts& l) {
  return fmt::format("{} {} at {}", l.name, to_text(l.version), l.used()->path);
}

int major_of(const Facts& f, const char* name) {
  const LibraryFacts* l = f.library(name);
  return l && l->used() && l->error.empty() && !l->version.empty() ? l->version[0] : 0;
}

constexpr Check kToolkit[] = {
  {"toolkit.nvcc-missing", kWarning, "A CUDA toolkit is installed, but nvcc is not on PATH",
   "Strata does not need nvcc to run: custom kernels are compiled by NVRTC. Building Strata from source, or C++ "
   "extensions "
   "of PyTorch, needs it.",
   "export PATH=/usr/local/cuda/bin:$PATH",
   [](const Facts& f, Evidence& found) {
     if (!f.nvcc.empty()) return;
     for (const Toolkit& t : f.toolkits)
       if (f.m().exists(t.folder + "/bin/nvcc")) found.push_back(t.folder + "/bin/nvcc");
   }},
  {"toolkit.broken-link", kWarning, "/usr/local/cuda is a link to a folder that does not exist",
   "The toolkit that it named was removed. Programs that look there find nothing.",
   "ls -d /usr/local/cuda-*\nsudo ln -sfn /usr/local/cuda-12 /usr/local/cuda",
   [](const Facts& f, Evidence& found) {
     if (f.m().dangling("/usr/local/cuda")) found.push_back("/usr/local/cuda");
   }},
  {"toolkit.several", kWarning, "nvcc on PATH and CUDA_HOME are different toolkits",
   "Headers of one version and the compiler of another give errors that are hard to read, or libraries that do not "
   "match.",
   "export CUDA_HOME=$(dirname $(dirname $(readlink -f $(which nvcc))))",
   [](const Facts& f, Evidence& found) {
     const Toolkit *path = nullptr, *variable = nullptr;
     for (const Toolkit& t : f.toolkits) {
       if (t.found_by == "PATH") path = &t;
       if (t.found_by == "CUDA_HOME" || t.found_by == "CUDA_PATH") variable = &t;
     }
     if (path && variable)
       found.push_back(fmt::format("nvcc is in {} ({}), {} is {} ({})", path->folder, to_text(path->version),
                                   variable->found_by, variable->folder, to_text(variable->version)));
   }},
  {"toolkit.newer-than-driver", kWarning, "The CUDA toolkit is newer than the driver supports",
   "Programs that this nvcc compiles need a driver of its major version; PTX of a newer minor version does not load.",
   "sudo apt-get install nvidia-driver  # a newer one\nnvidia-smi; nvcc --version",
   [](const Facts& f, Evidence& found) {
     for (const Toolkit& t : f.toolkits)
       if (!f.driver.cuda.empty() && !t.version.empty() && t.version[0] > f.driver.cuda[0])
         found.push_back(
           fmt::format("{} is CUDA {}, the driver supports {}", t.folder, to_text(t.version), to_text(f.driver.cuda)));
   }},
};

constexpr Check kLibraries[] = {
  {"libraries.missing", kWarning, "A library that makes GPUs faster is not installed",
   "Strata has kernels of its own for everything. With these libraries products and convolutions are faster, and "
   "custom "
   "and fused kernels can be compiled.",
   "pip install nvidia-cublas nvidia-cudnn-cu13 nvidia-cuda-nvrtc",
   [](const Facts& f, Evidence& found) {
     if (f.driver.count <= 0) return;
     for (const char* name : {"NVRTC", "cuBLASLt", "cuDNN"})
       if (const LibraryFacts* l = f.library(name); l && !l->used() && l->variable.empty()) found.push_back(name);
   }},
  {"libraries.named-file-missing", kWarning, "A variable names a library that does not exist",
   "STRATA_NVRTC, STRATA_CUBLASLT, STRATA_CUDNN and STRATA_NCCL name the file to open, and nothing else is tried then.",
   "unset STRATA_CUDNN  # or the variable that is named above",
   [](const Facts& f, Evidence& found) {
     for (const LibraryFacts& l : f.libraries)
       if (!l.variable.empty() && !l.error.empty() && !f.m().exists(l.variable)) found.push_back(l.error);
   }},
  {"libraries.too-old", kWarning, "A library is older than Strata can use",
   "It is left alone, and kernels of Strata run instead.",
   "pip install --upgrade nvidia-cublas nvidia-cudnn-cu13 nvidia-cuda-nvrtc",
   [](const Facts& f, Evidence& found) {
     for (const Oldest& o : oldest())
       if (const LibraryFacts* l = f.library(o.name); l && l->used() && !l->version.empty() && l->version < o.version)
         found.push_back(fmt::format("{}; {} or newer is needed", where(*l), to_text(o.version)));
   }},
  {"libraries.broken", kWarning, "A library cannot be opened",
   "The file is damaged, is for another processor, crashes when it is opened, or lacks a library that it needs.",
   "ldd <file>\npip install --force-reinstall <its package>",
   [](const Facts& f, Evidence& found) {
     for (const LibraryFacts& l : f.libraries)
       if (l.used() && !l.error.empty() && is_used(l)) found.push_back(l.used()->path + ": " + l.error);
   }},
  {"libraries.shadowed", kWarning, "There are several versions of a library",
   "The first one that is found is used, and that is not the newest. LD_LIBRARY_PATH comes before the loader's cache, "
   "and "
   "both before Python packages.",
   "unset LD_LIBRARY_PATH\nstrata libraries  # shows the file in use and the other copies",
   [](const Facts& f, Evidence& found) {
     for (const LibraryFacts& l : f.libraries)
       for (size_t i = 1; i < l.copies.size() && is_used(l); ++i)
         if (l.copies[0].version < l.copies[i].version && l.variable.empty())
           found.push_back(fmt::format("{}: {} ({}, by {}) is used before {} ({})", l.name, l.copies[0].path,
                                       to_text(l.copies[0].version), l.copies[0].found_by, l.copies[i].path,
                                       to_text(l.copies[i].version)));
   }},
  {"libraries.cublas-mixed", kWarning, "cuBLAS and cuBLASLt have different versions",
   "cuBLAS calls cuBLASLt and needs the one of its own release: symbols may be missing, or results wrong.",
   "pip install --force-reinstall nvidia-cublas",
   [](const Facts& f, Evidence& found) {
     const LibraryFacts *a = f.library("cuBLAS"), *b = f.library("cuBLASLt");
     if (!a || !b || !a->used() || !b->used()) return;
     const Version &x = a->used()->version, &y = b->used()->version;
     if (x.size() >= 2 && y.size() >= 2 && (x[0] != y[0] || x[1] != y[1]))
       found.push_back(fmt::format("{} is {}, {} is {}", a->used()->path, to_text(x), b->used()->path, to_text(y)));
   }},
  {"libraries.cudnn-mixed", kWarning, "The parts of cuDNN have different versions",
   "cuDNN 9 is split into libcudnn_ops, libcudnn_cnn, libcudnn_graph and others, which it opens by name. If the loader "
   "finds "
   "one of another release first, calls fail with CUDNN_STATUS_SUBLIBRARY_VERSION_MISMATCH.",
   "pip install --force-reinstall nvidia-cudnn-cu13\nldconfig -p | grep libcudnn",
   [](const Facts& f, Evidence& found) {
     const LibraryFacts* l = f.library("cuDNN");
     if (!l || !l->used()) return;
     for (const char* part : {"libcudnn_ops.so", "libcudnn_cnn.so", "libcudnn_graph.so", "libcudnn_adv.so"}) {
       const std::vector<Copy> copies = copies_of(f, {part});
       if (!copies.empty() && copies[0].version.size() >= 2 && l->used()->version.size() >= 2 &&
           copies[0].version != l->used()->version)
         found.push_back(fmt::format("{} is {}, {} is {}", l->used()->real, to_text(l->used()->version), copies[0].real,
                                     to_text(copies[0].version)));
     }
   }},
  {"libraries.cuda-mixed", kWarning, "Libraries of different CUDA versions are found",
   "NVRTC of CUDA 13 makes PTX that a driver for CUDA 12 does not load, and cuDNN for CUDA 12 opens cuBLASLt 12. Use "
   "one "
   "major version for all.",
   "pip list | grep -i nvidia\npip uninstall <the packages of the other version>",
   [](const Facts& f, Evidence& found) {
     const int a = major_of(f, "NVRTC"), b = major_of(f, "cuBLASLt");
     if (a && b && a != b) found.push_back(where(*f.library("NVRTC")) + "; " + where(*f.library("cuBLASLt")));
   }},
  {"libraries.newer-than-driver", kWarning, "A library is for a newer CUDA than the driver supports",
   "It fails with CUDA_ERROR_UNSUPPORTED_PTX_VERSION or CUDA_ERROR_INSUFFICIENT_DRIVER.",
   "pip install 'nvidia-cuda-nvrtc-cu12' 'nvidia-cublas-cu12'  # or a newer driver",
   [](const Facts& f, Evidence& found) {
     if (f.driver.cuda.empty()) return;
     for (const char* name : {"NVRTC", "cuBLASLt"})
       if (const int major = major_of(f, name); major > f.driver.cuda[0])
         found.push_back(
           fmt::format("{}; the driver supports CUDA {}", where(*f.library(name)), to_text(f.driver.cuda)));
   }},
  {"libraries.tensorrt-missing", kWarning, "A package for TensorRT is installed, but TensorRT is not",
   "torch_tensorrt needs libnvinfer. Strata itself does not use it.", "pip install tensorrt",
   [](const Facts& f, Evidence& found) {
     const LibraryFacts* l = f.library("TensorRT");
     if (const Package* p = f.package("torch-tensorrt"); p && l && !l->used())
       found.push_back(fmt::format("{} {} in {}, and no libnvinfer", p->name, p->text, p->folder));
   }},
};

}  // namespace

std::span<const Check> toolkit_checks() { return kToolkit; }
std::span<const Check> library_checks() { return kLibraries; }

}  // namespace strata::doctor
