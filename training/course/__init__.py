"""How a run goes on: its rate, and the device that it runs on."""
