"""Who watches a run besides metrics.json: W&B, TensorBoard, MLflow, CSV files. None of them can stop one."""
