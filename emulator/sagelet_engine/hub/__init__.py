"""An offline hub: repositories of models, data sets and metrics in the form of the Hugging Face Hub."""
