# tests/programs/said.sh: for scripts that look at what a job has said, which read this file.
# `what` was run stands in a variable, so does its exit `code`; $folder/out and $folder/err have
# what it wrote to its standard output and error.

fault() {
    echo "$what (exit code $code): $1; standard output and error:"
    cat "$folder/out" "$folder/err"
    failed=1
}
has() { grep -q -- "$2" "$folder/$1" || fault "\"$2\" is missing"; }
has_not() { if grep -q -- "$2" "$folder/$1"; then fault "\"$2\" is there"; fi; }
