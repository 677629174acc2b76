"""Networks: the encoder, hooks into its attention, pretrained weights, the BiLSTM."""
