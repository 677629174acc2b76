"""Measurements, run by hand: `make bench`, `make tables`."""

import domadapt as domadapt  # before torch: it says how threads wait
