"""Writes a CreateTrainingJob request as programs that make it again."""
