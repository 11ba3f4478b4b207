// pmix/services_words.cc: the rank's side of services.h.
#include "pmix/services.h"

namespace pomona {

const char* refusal_of(Service service) {
    switch (service) {
    case Service::spawn: return "mpirun cannot start the processes; it has said why";
    case Service::open_port: return "The port is open already";
    case Service::close_port:
    case Service::met:
    case Service::leave: return "The port has been closed";
    case Service::meet: return "No such port is open in this job";
    case Service::publish: return "The name is published already";
    case Service::unpublish:
    case Service::find_name: return "The name is not published";
    default: return "mpirun refuses the request";
    }
}

std::vector<std::byte> write_spawn(const std::vector<Program>& programs) {
    Writer out;
    out.put(static_cast<uint32_t>(programs.size()));
    for (const Program& program : programs) {
        out.put(static_cast<uint32_t>(program.count));
        out.put_text(program.directory);
        out.put_text(program.host);
        out.put_text(program.errhandler);
        out.put(static_cast<uint32_t>(program.command.size()));
        for (const std::string& word : program.command) out.put_text(word);
    }
    return out.bytes();
}

}  // namespace pomona
