"""Tests of `testbed.runtimes`."""
