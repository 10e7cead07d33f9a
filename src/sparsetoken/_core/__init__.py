"""What every package may use: arrays, validation, devices and precision, files, threads."""
