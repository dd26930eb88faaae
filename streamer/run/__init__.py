"""What replay and worker share, and replay: signing, judging in order, outputs, the catalogue."""
