# tests/environment.cmake: what ctest sets for every test: costs of links that this machine has been
# tuned to (pomona tune) would choose other algorithms than those a test is about.
set(ENV{POMONA_LINKS} built-in)
