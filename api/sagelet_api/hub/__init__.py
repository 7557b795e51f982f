"""The read API of the Hugging Face Hub, over the repositories of the data directory."""
