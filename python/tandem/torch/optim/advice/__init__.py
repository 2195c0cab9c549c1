"""Advice on strategies: recommendations, roles of parameters, bytes and measured errors."""
