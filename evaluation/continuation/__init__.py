"""The groove experiment: does a continuation keep the style of its prompt?"""
