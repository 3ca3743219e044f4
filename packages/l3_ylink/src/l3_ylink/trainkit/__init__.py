"""Y-TrainKit: plans a pretraining run and carries it out."""
