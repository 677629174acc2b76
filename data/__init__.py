"""Shipped corpora and parser, installed as ``domadapt.shipped``."""
