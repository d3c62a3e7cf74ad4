"""Voxpath: a voice agent whose ears are an FPGA."""
