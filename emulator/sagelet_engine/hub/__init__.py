"""An offline hub: repositories of models, data sets and metrics, as the Hugging Face Hub has them."""
