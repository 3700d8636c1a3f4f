# The test runner sums up over all suites: Catch2 programs, and scripts in tests/system that speak TAP.
TEST_SUITES += $(wildcard tests/system/*_test.py)
