"""The groove experiment: do continuations keep the style of their prompts?"""
