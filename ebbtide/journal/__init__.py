"""The journals of client processes, and the tables that are made from them."""
