"""The Responses format of OpenAI."""
