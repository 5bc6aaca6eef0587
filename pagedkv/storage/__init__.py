"""What is done with the device's memory itself. torch is imported here and above, and only where it is needed."""
