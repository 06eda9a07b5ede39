"""Writes the Python classes of modules: strata/nn/_modules.py."""


def module(records, table):
    return ""
