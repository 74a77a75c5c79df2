"""Tests of `testbed.node`."""
