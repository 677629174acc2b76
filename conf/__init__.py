"""Hydra configuration, installed as ``domadapt.conf``."""
