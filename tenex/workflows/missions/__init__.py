"""Missions: graphs whose nodes are functions over typed state. Start at `graph.Graph`."""
