"""A rating made of several runs, the podium of many ratings, and what differs between two runs."""
