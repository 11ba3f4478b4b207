# Homebrew formula: builds Pomona from a checkout, with its dependencies. docs/macos.md tells how to
# use it: HOMEBREW_POMONA_SOURCE names the checkout. It cannot stand beside Open MPI and MPICH, whose
# mpirun and mpicc have the same names. The homepage is the standard's.
class Pomona < Formula
  desc "MPI on the standard ABI, and a backend for torch.distributed"
  homepage "https://www.mpi-forum.org/"
  license "MIT"
  head ENV.fetch("HOMEBREW_POMONA_SOURCE", "file:///usr/local/src/pomona"),
       using: :git, branch: ENV.fetch("HOMEBREW_POMONA_BRANCH", "main")

  depends_on "cli11" => :build
  depends_on "cmake" => :build
  depends_on "fmt" => :build
  depends_on "ninja" => :build
  depends_on "nlohmann-json" => :build
  depends_on "pkgconf" => :build
  depends_on "hwloc"
  depends_on "libevent"
  depends_on macos: :sonoma
  depends_on "openssl@3"
  depends_on "pmix"

  conflicts_with "mpich", because: "both install mpirun and mpicc"
  conflicts_with "open-mpi", because: "both install mpirun and mpicc"

  def install
    system "cmake", "-S", ".", "-B", "build", "-G", "Ninja", "-DPOMONA_TESTS=OFF", *std_cmake_args
    system "cmake", "--build", "build"
    system "cmake", "--install", "build"
    pkgshare.install "examples"
  end

  test do
    system bin/"mpicc", pkgshare/"examples/ring.c", "-o", "ring"
    system bin/"mpirun", "-n", "2", "./ring"
    assert_match "Pomona", shell_output("#{bin}/pomona info")
  end
end
