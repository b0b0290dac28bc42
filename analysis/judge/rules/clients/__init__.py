"""Promises to clients of the user's own, judged by what passed through published ports (the table `wire`).

A row of evidence of these clauses `says` what happened in a sentence, which is a reason for the outcome.
"""
