# Unit tests of what of torch_glue needs no torch.
pomona_test(glue_clock_difference unit/clock_difference.cc LABELS torch)
