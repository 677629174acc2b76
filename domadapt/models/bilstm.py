"""The first of the three bars: a recurrent network from scratch, with no pretraining."""

from pathlib import Path

from safetensors import SafetensorError
from safetensors.torch import load_file, save_file
from torch import nn
from torch.nn.utils.rnn import pack_padded_sequence, pad_packed_sequence

from domadapt.data.batches import Batch
from domadapt.models.contracts import Output
from domadapt.models.pretrained import AGAIN, load_tokenizer, refuse_non_finite


class BiLSTM(nn.Module):
    """Word pieces → learned embeddings → bidirectional LSTM → linear head; of whole texts the maximum over pieces."""

    takes_methods = False

    def __init__(
        self, name: str, kind: str, labels: list[str], embedding: int = 100, hidden: int = 128, dropout: float = 0.3
    ) -> None:
        super().__init__()
        self.name, self.kind, self.labels = name, kind, labels
        self.tokenizer = load_tokenizer(name)
        self.embed = nn.Embedding(len(self.tokenizer), embedding, padding_idx=self.tokenizer.pad_token_id)
        self.lstm = nn.LSTM(embedding, hidden, batch_first=True, bidirectional=True)
        self.dropout = nn.Dropout(dropout)
        self.classifier = nn.Linear(2 * hidden, len(labels))

    @property
    def width(self) -> int:
        return 2 * self.lstm.hidden_size

    @property
    def longest(self) -> int:
        """Most pieces of a text: as many as the tokenizer's own backbone reads, so that bars compare."""
        return int(self.tokenizer.model_max_length)

    def forward(self, batch: Batch) -> Output:
        """Encode and classify a batch; padding never reaches the LSTM."""
        ids, mask = batch.input_ids, batch.attention_mask
        embedded, lengths = self.dropout(self.embed(ids)), mask.sum(1).cpu()
        packed = pack_padded_sequence(embedded, lengths, batch_first=True, enforce_sorted=False)
        states, _ = pad_packed_sequence(self.lstm(packed)[0], batch_first=True, total_length=ids.shape[1])
        pooled = states
        if self.kind == "sequence":
            pooled = states.masked_fill(mask.unsqueeze(-1) == 0, float("-inf")).amax(1)
        return Output(states, self.classifier(self.dropout(pooled)))

    def save(self, folder: Path) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        save_file({k: v.contiguous() for k, v in self.state_dict().items()}, folder / "model.safetensors")
        self.tokenizer.save_pretrained(folder)

    def load(self, folder: Path) -> None:
        """Read the weights that :meth:`save` wrote; refuses what is not whole, of another shape, or not finite."""
        path = folder / "model.safetensors"
        try:
            weights = load_file(path)
            self.load_state_dict(weights)
        except (OSError, SafetensorError, RuntimeError) as error:
            raise ValueError(f"{path}: could not be loaded ({' '.join(str(error).split())}); {AGAIN}") from error
        refuse_non_finite(weights, str(path))
