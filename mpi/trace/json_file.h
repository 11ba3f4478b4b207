// mpi/trace/json_file.h: writes the events of a trace, one a line.
// Idea: a trace has millions of lines, so they are written as they come into a buffer that does not
// grow, and numbers by hand.
#pragma once

#include <charconv>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <memory>
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
    // Their words are the library's own, and plain.
    void event(const char* phase, std::string_view name, const char* category, int64_t time,
               int rank, uint32_t thread) {
        put(first_ ? "\n{\"ph\":\"" : ",\n{\"ph\":\"");
        first_ = false;
        put(phase);
        put("\"");
        comma_ = true;
        plain("name", name);
        plain("cat", category);
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
    void end() { put("}"); }
    [[gnu::always_inline]] void number(const char* name, int64_t value) {
        key(name);
        digits(value);
    }
    [[gnu::always_inline]] void text(const char* name, std::string_view value) {
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
    static constexpr size_t kBytes = 1 << 16;
    size_t room() const { return static_cast<size_t>(buffer_.get() + kBytes - end_); }
    [[gnu::always_inline]] void put(std::string_view text) {
        if (text.size() > room()) return put_long(text);
        std::memcpy(end_, text.data(), text.size());
        end_ += text.size();
    }
    void put_long(std::string_view text) {
        flush();
        if (text.size() > kBytes) return write(text);
        std::memcpy(end_, text.data(), text.size());
        end_ += text.size();
    }
    void put(char c) { put(std::string_view(&c, 1)); }
    // Names of keys are the library's own, and plain.
    [[gnu::always_inline]] void key(std::string_view name) {
        put(comma_ ? ",\"" : "\"");
        comma_ = true;
        put(name);
        put("\":");
    }
    static bool is_plain(char c) {
        return static_cast<unsigned char>(c) >= 32 && c != '"' && c != '\\';
    }
    [[gnu::always_inline]] void plain(const char* name, std::string_view value) {
        key(name);
        put("\"");
        put(value);
        put("\"");
    }
    // Nearly all texts are plain: they are looked at without a branch and go out as a whole.
    void quoted(std::string_view text) {
        put("\"");
        bool plain = true;
        for (char c : text) plain &= is_plain(c);
        if (plain) put(text);
        else
            for (char c : text) {
                if (c == '"' || c == '\\') put('\\');
                put(static_cast<unsigned char>(c) < 32 ? ' ' : c);
            }
        put("\"");
    }
    void digits(int64_t value) {
        char text[20];  // of the lowest value
        char* end = std::to_chars(text, text + sizeof text, value).ptr;
        put({text, static_cast<size_t>(end - text)});
    }
    void microseconds(int64_t nanoseconds) {
        if (nanoseconds < 0) put("-"), nanoseconds = -nanoseconds;
        digits(nanoseconds / 1000);
        int64_t rest = nanoseconds % 1000;
        const char part[] = {'.', static_cast<char>('0' + rest / 100),
                             static_cast<char>('0' + rest / 10 % 10),
                             static_cast<char>('0' + rest % 10)};
        put({part, sizeof part});
    }
    void flush() {
        write({buffer_.get(), kBytes - room()});
        end_ = buffer_.get();
    }
    void write(std::string_view text) {
        failed_ |= std::fwrite(text.data(), 1, text.size(), file_) != text.size();
    }

    std::string path_, partial_;
    std::FILE* file_;
    std::unique_ptr<char[]> buffer_{new char[kBytes]};
    char* end_ = buffer_.get();
    int64_t zero_ = 0;
    bool first_ = true, comma_ = false, failed_ = false;
};

}  // namespace pomona::trace
