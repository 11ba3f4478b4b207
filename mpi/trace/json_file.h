// mpi/trace/json_file.h: writes the events of a trace, one a line.
// Idea: a trace has millions of lines, so they are written as they come, and numbers by hand.
#pragma once

#include <cstdint>
#include <cstdio>
#include <string>
#include <string_view>

namespace pomona::trace {

class JsonFile {
public:
    // Under another name until finish().
    explicit JsonFile(const std::string& path)
        : path_(path), partial_(path + ".part"), file_(std::fopen(partial_.c_str(), "wb")) {}
    ~JsonFile() {
        if (file_) std::fclose(file_);
    }
    JsonFile(const JsonFile&) = delete;
    JsonFile& operator=(const JsonFile&) = delete;
    bool good() const { return file_ != nullptr; }

    void begin(int64_t zero) {
        zero_ = zero;
        put("{\"displayTimeUnit\":\"ns\",\"traceEvents\":[");
    }
    void event(const char* phase, std::string_view name, const char* category, int64_t time,
               int rank, uint32_t thread) {
        put(first_ ? "\n{\"ph\":\"" : ",\n{\"ph\":\"");
        first_ = false;
        put(phase);
        put("\"");
        comma_ = true;
        text("name", name);
        text("cat", category);
        key("ts");
        microseconds(time - zero_);
        number("pid", rank);
        number("tid", static_cast<int64_t>(thread));
    }
    void duration(int64_t nanoseconds) {
        key("dur");
        microseconds(nanoseconds);
    }
    void open(const char* name, bool after_events = false) {
        if (after_events) put("\n],\n\""), put(name), put("\":");
        else key(name);
        put("{");
        comma_ = false;
    }
    void close() {
        put("}");
        comma_ = true;
    }
    void end() {
        put("}");
        flush_if_long();
    }
    void number(const char* name, int64_t value) {
        key(name);
        buffer_ += std::to_string(value);
    }
    void text(const char* name, std::string_view value) {
        key(name);
        quoted(value);
    }
    template <class Value>
    void metadata(const char* what, int rank, const char* name, const Value& value) {
        put(first_ ? "\n{\"ph\":\"M\"" : ",\n{\"ph\":\"M\"");
        first_ = false;
        comma_ = true;
        text("name", what);
        number("pid", rank);
        number("tid", 0);
        open("args");
        if constexpr (std::is_convertible_v<Value, std::string_view>) text(name, value);
        else number(name, value);
        close();
        end();
    }
    // After otherData; false when something could not be written.
    bool finish() {
        put("}}\n");
        flush();
        bool whole = std::fclose(file_) == 0 && !failed_;
        file_ = nullptr;
        return whole && std::rename(partial_.c_str(), path_.c_str()) == 0;
    }

private:
    static constexpr size_t kFlushAt = 1 << 16;
    void put(std::string_view text) { buffer_ += text; }
    void key(const char* name) {
        if (comma_) put(",");
        comma_ = true;
        quoted(name);
        put(":");
    }
    void quoted(std::string_view text) {
        put("\"");
        for (char c : text) {
            if (c == '"' || c == '\\') buffer_ += '\\';
            if (static_cast<unsigned char>(c) < 32) buffer_ += ' ';
            else buffer_ += c;
        }
        put("\"");
    }
    void microseconds(int64_t nanoseconds) {
        if (nanoseconds < 0) put("-"), nanoseconds = -nanoseconds;
        buffer_ += std::to_string(nanoseconds / 1000);
        int64_t rest = nanoseconds % 1000;
        const char digits[] = {'.', static_cast<char>('0' + rest / 100),
                               static_cast<char>('0' + rest / 10 % 10),
                               static_cast<char>('0' + rest % 10)};
        buffer_.append(digits, sizeof digits);
    }
    void flush_if_long() {
        if (buffer_.size() >= kFlushAt) flush();
    }
    void flush() {
        failed_ |= std::fwrite(buffer_.data(), 1, buffer_.size(), file_) != buffer_.size();
        buffer_.clear();
    }

    std::string path_, partial_, buffer_;
    std::FILE* file_;
    int64_t zero_ = 0;
    bool first_ = true, comma_ = false, failed_ = false;
};

}  // namespace pomona::trace
