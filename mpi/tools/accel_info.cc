// mpi/tools/accel_info.cc: which module reduces what on this machine, from the kept measurement or
// from one made now. The same figures that MPI_Init follows (parameter accel = auto).
#include "mpi/tools/accel_info.h"

#include "accel/choose.h"
#include "btl/base/format.h"

#include <cstdio>

namespace pomona {

static void print(const std::string& text) { std::fputs(text.c_str(), stdout); }

static std::string size_name(size_t bytes) {
    return bytes < (size_t{1} << 20) ? pomona::format("{} KiB", bytes >> 10)
                                     : pomona::format("{} MiB", bytes >> 20);
}

// "portable", or "portable, vdsp from 64 KiB".
static std::string modules_of(const Choice& row) {
    std::string text = module_name(row.module_for(0));
    for (size_t i = 1; i < row.points.size(); ++i)
        if (row.points[i].best != row.points[i - 1].best)
            text += pomona::format(", {} from {}", module_name(row.points[i].best),
                                   size_name(row.points[i].bytes));
    for (int m = 0; m < module_count; ++m)
        if (row.differs[static_cast<size_t>(m)])
            text += pomona::format(" ({} gives other bits)", module_name(static_cast<Module>(m)));
    return text;
}

static double rate(const ChoicePoint& point) {
    Nanoseconds ns = point.ns[static_cast<size_t>(point.best)];
    return ns > 0 ? 3.0 * static_cast<double>(point.bytes) / static_cast<double>(ns) : 0;
}

static void print_table(const Choices& choices) {
    print("  GB/s of reading two arrays and writing one, one thread, by bytes of an array:\n");
    std::string head = pomona::format("  {:<6}{:<18}", "op", "type");
    if (!choices.rows.empty())
        for (const ChoicePoint& point : choices.rows.front().points)
            head += pomona::format("{:>9}", size_name(point.bytes));
    print(head + "  module\n");
    for (const Choice& row : choices.rows) {
        print(pomona::format("  {:<6}{:<18}", op_name(row.op), type_name(row.type)));
        for (const ChoicePoint& point : row.points) print(pomona::format("{:>9.1f}", rate(point)));
        print(pomona::format("  {}\n", modules_of(row)));
    }
}

int accel_info(const std::string& path, bool again) {
    print(pomona::format("Reductions on this machine: {}\n", machine_key()));
    Result<Choices> kept = load_choices(path);
    if (again || !kept) {
        std::fprintf(stderr, "measuring (once; kept in %s) ...\n", path.c_str());
        RealClock clock;
        kept = measure_choices(accel_candidates(), real_timer(clock));
        Status saved = path.empty() ? Status() : save_choices(kept.value(), path);
        if (!saved)
            std::fprintf(stderr, "pomona info: %s (%s)\n", saved.error().text().c_str(),
                         path.c_str());
    }
    print_table(kept.value());
    print(
        pomona::format("  kept in {}; `pomona info --accel --again` measures anew;\n"
                       "  the parameter accel (auto, portable, vdsp, metal) overrides\n",
                       path.empty() ? "no file, for want of a home directory" : path));
    return 0;
}

}  // namespace pomona
